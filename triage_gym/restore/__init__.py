"""Going back to a recorded point of an episode, verified."""

from triage_gym.records import RestoreStatus
from triage_gym.restore.restorer import Restorer, Rewound
from triage_gym.restore.trail import Portable, restore

__all__ = ["Portable", "RestoreStatus", "Restorer", "Rewound", "restore"]
