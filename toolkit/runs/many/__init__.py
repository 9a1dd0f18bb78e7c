"""Many runs side by side, under one spend limit, here or in the workers of an executor."""
