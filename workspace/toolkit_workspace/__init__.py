"""A workspace is a safe copy: allowed host files in a temp dir, and the way back."""

__all__: list[str] = []
