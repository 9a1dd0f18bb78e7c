"""Whether a worker would do a run as the caller's machine would: what each has, compared before the first run."""

from toolkit.fleets.check.about import About, about_me, tell_about_me
from toolkit.fleets.check.compare import Fitness, compare

__all__ = ["About", "Fitness", "about_me", "compare", "tell_about_me"]
