"""Language models behind OpenAI-compatible endpoints: one small client for reflectors and judges."""

from triage_gym.llm.client import ChatClient
from triage_gym.llm.completion import Completion

__all__ = ["ChatClient", "Completion"]
