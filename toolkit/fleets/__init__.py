"""Many runs on many machines: tasks that are worked off once, at one rate, out of one purse.

What machines must agree on (who does a task, what is left of a limit, how quickly the model API may be asked) they
agree on through a `store`: a folder, any address fsspec knows, or the engine that sends the runs.
"""
