"""Language models behind OpenAI-compatible endpoints: a client for one question, a pool for many, and their accounts."""

from triage_gym.llm.client import ChatClient, Question
from triage_gym.llm.clock import MachineClock, VirtualClock
from triage_gym.llm.completion import Completion
from triage_gym.llm.pool import ChatPool

__all__ = ["ChatClient", "ChatPool", "Completion", "MachineClock", "Question", "VirtualClock"]
