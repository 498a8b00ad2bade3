"""The wrappers: role labels, pivotal retry, segment credit and their companions.

The order is ``SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(TimeLimit(env))))``: the time limit inside, so that
its budget comes back with a retry's prefix; the judge outside of the retry, so that a prefix is judged once; the credit
outside of the judge, so that it sees the labels. ``AdmissibleActionWrapper`` and ``HistoryWrapper`` go outermost.
``TextVectorEnv`` is no wrapper: it runs several such stacks side by side.
"""

from triage_gym.wrappers.admissible_action import AdmissibleActionWrapper
from triage_gym.wrappers.history import HistoryWrapper
from triage_gym.wrappers.pivot_retry import PivotRetryWrapper
from triage_gym.wrappers.role_judge import RoleJudgeWrapper
from triage_gym.wrappers.segment_credit import SegmentCreditWrapper
from triage_gym.wrappers.state_facts import StateFactsWrapper
from triage_gym.wrappers.vector import TextVectorEnv

__all__ = [
    "AdmissibleActionWrapper",
    "HistoryWrapper",
    "PivotRetryWrapper",
    "RoleJudgeWrapper",
    "SegmentCreditWrapper",
    "StateFactsWrapper",
    "TextVectorEnv",
]
