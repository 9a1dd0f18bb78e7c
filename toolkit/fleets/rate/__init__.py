"""One rate for many runs: when each request to the model API leaves, and what is decided when it refuses."""

from toolkit.fleets.rate.decisions import Decision as Decision
from toolkit.fleets.rate.following import follow as follow, take_up as take_up
from toolkit.fleets.rate.here import paced_here as paced_here, rate_here as rate_here
from toolkit.fleets.rate.rate import Rate as Rate, RunPace as RunPace
from toolkit.fleets.rate.shared import SharedRate as SharedRate
from toolkit.fleets.rate.specs import paced as paced, project_of as project_of
