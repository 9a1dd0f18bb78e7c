"""Conversations that go on: kept outside of every jail, resumed in a later run."""
