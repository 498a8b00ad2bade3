"""What leaves a wrapper: frozen records of segments, labels, attempts and groups, with versioned JSON in and out.

A *segment* is one environment-facing action with the observation before it and the one after it. An *attempt* is the
list of segments from a start state to the end. A *group* is the attempts at one task instance that are compared with
each other. Nothing live (no env, no array that someone may still write to) is ever part of a record.

Reading JSON is strict: an unknown version, a missing field or a wrong type is an
:class:`~triage_gym.errors.InputError` that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar, cast, get_args

from triage_gym.errors import GroupError, InputError

SCHEMA: Final = 1
Role = Literal["D", "E", "N", "R"]
ROLES: Final[tuple[Role, ...]] = ("D", "E", "N", "R")
LabelStatus = Literal["judged", "failed", "unjudged", "unsure"]
LABEL_STATUSES: Final[tuple[LabelStatus, ...]] = ("judged", "failed", "unjudged", "unsure")

_T = TypeVar("_T")
_MISSING: Final = object()


def _read(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], where: str, default: Any = _MISSING) -> Any:
    """Field ``key`` of a JSON object, checked; bool is never taken for a number, nor a non-finite one for a float."""
    value = data.get(key, default)
    if value is _MISSING:
        raise InputError(f"Expected {where} to have the field {key!r}, got {sorted(map(str, data))}")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool) and bool not in kinds:
        raise InputError(f"Expected {where}.{key} to be {_names(kinds)}, got {value!r}")
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    if not isinstance(value, kinds):
        raise InputError(f"Expected {where}.{key} to be {_names(kinds)}, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"Expected {where}.{key} to be finite, got {value}")
    return value


def _as_float(number: int) -> float:
    """``number`` as a float, infinite when it is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _names(kinds: Sequence[type]) -> str:
    return " or ".join("null" if k is type(None) else k.__name__ for k in kinds)


def _object(data: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise InputError(f"Expected {where} to be a JSON object, got {type(data).__name__}")
    return data


def _check_schema(data: Mapping[str, Any], where: str) -> None:
    version = data.get("schema")
    if type(version) is not int or version != SCHEMA:
        raise InputError(
            f'Expected {where} with "schema": {SCHEMA}, got {version!r}; '
            "it was written by another version of triage_gym or is not a record"
        )


def _list(data: Mapping[str, Any], key: str, where: str, item: Callable[[Any], _T]) -> tuple[_T, ...]:
    return tuple(item(x) for x in _read(data, key, list, where))


def _one_of(data: Mapping[str, Any], key: str, names: tuple[_T, ...], where: str) -> _T:
    """Field ``key``, one of ``names``; the first of them when it is left out."""
    value = data.get(key, names[0])
    if value not in names:
        raise InputError(f"Expected {where}.{key} to be one of {names}, got {value!r:.80}")
    return names[names.index(value)]


@dataclass(frozen=True, slots=True)
class Segment:
    """One environment-facing action with the observation before it and the observation after it."""

    index: int
    """Turn number in the attempt, from 0. Turns copied from an earlier attempt (a retry's prefix) keep theirs."""
    observation: str
    """Text that the agent saw before it acted."""
    action: str
    """Text of the action as it was sent to the environment."""
    next_observation: str
    """Text that came back."""
    reward: float = 0.0
    """The environment's own reward of this step. Judges never see it."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts worth keeping, such as ``invalid_action``. Judges never see it."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "index": self.index,
            "observation": self.observation,
            "action": self.action,
            "next_observation": self.next_observation,
            "reward": self.reward,
            "info": dict(self.info),
        }

    @classmethod
    def from_json(cls, data: Any) -> Segment:
        """The segment written by :meth:`to_json`; raises InputError for anything else."""
        d = _object(data, "segment")
        return cls(
            index=_read(d, "index", int, "segment"),
            observation=_read(d, "observation", str, "segment"),
            action=_read(d, "action", str, "segment"),
            next_observation=_read(d, "next_observation", str, "segment"),
            reward=_read(d, "reward", float, "segment", 0.0),
            info=dict(_read(d, "info", dict, "segment", {})),
        )


@dataclass(frozen=True, slots=True)
class RoleLabel:
    """What a judge said about one segment.

    A failed call is ``role=None`` with ``status="failed"``: the segment then gets the outcome term only. It is never
    read as N, as zero or as a guess.
    """

    step: int
    """Index of the segment in its attempt."""
    role: Role | None
    """D decisive, E exploration, N no progress, R regression, or None when there is no label."""
    confidence: float = 1.0
    """In [0, 1]; 1.0 for rules that state no doubt."""
    probabilities: tuple[float, float, float, float] | None = None
    """Probability of D, E, N, R in this order, when the judge has them."""
    why: str = ""
    """Reason in words, or the failure."""
    source: str = ""
    """Name of the judge."""
    status: LabelStatus = "judged"
    """``judged``, ``failed`` (the judge was asked and could not say), ``unjudged`` (it was not asked) or ``unsure`` (what it
    said was withheld: too little confidence, or judges that do not agree)."""
    magnitude: float = 1.0
    """How much of the role it is, in [0, 1], from a judge with such a second level; 1.0 from all others."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "step": self.step,
            "role": self.role,
            "confidence": self.confidence,
            "probabilities": None if self.probabilities is None else list(self.probabilities),
            "why": self.why,
            "source": self.source,
            "status": self.status,
            "magnitude": self.magnitude,
        }

    @classmethod
    def from_json(cls, data: Any) -> RoleLabel:
        """The label written by :meth:`to_json`; raises InputError for anything else."""
        d = _object(data, "label")
        role = _read(d, "role", (str, type(None)), "label")
        if role is not None and role not in ROLES:
            raise InputError(f"Expected label.role to be one of {ROLES} or null, got {role!r}")
        status = _read(d, "status", str, "label", "judged")
        if status not in LABEL_STATUSES:
            raise InputError(f"Expected label.status to be one of {LABEL_STATUSES}, got {status!r}")
        if (role is None) == (status == "judged"):
            raise InputError(f"Expected a label with a role to be judged and no other, got {role!r} and {status!r}")
        confidence = _read(d, "confidence", float, "label", 1.0)
        magnitude = _read(d, "magnitude", float, "label", 1.0)
        for name, value in (("confidence", confidence), ("magnitude", magnitude)):
            if not 0.0 <= value <= 1.0:
                raise InputError(f"Expected label.{name} in [0, 1], got {value}")
        return cls(
            step=_read(d, "step", int, "label"),
            role=cast("Role | None", role),
            confidence=confidence,
            probabilities=_probabilities(_read(d, "probabilities", (list, type(None)), "label", None)),
            why=_read(d, "why", str, "label", ""),
            source=_read(d, "source", str, "label", ""),
            status=cast(LabelStatus, status),
            magnitude=magnitude,
        )


def _probabilities(raw: list[Any] | None) -> tuple[float, float, float, float] | None:
    if raw is None:
        return None
    if len(raw) != len(ROLES) or not all(type(p) in (int, float) and 0 <= p <= 1 for p in raw):
        raise InputError(f"Expected label.probabilities to be four numbers in [0, 1], got {raw!r:.80}")
    return float(raw[0]), float(raw[1]), float(raw[2]), float(raw[3])


@dataclass(frozen=True, slots=True)
class Reflection:
    """A remark on a failed attempt and the earliest wrong turn in it."""

    remark: str
    pivot: int
    """Index of the earliest wrong turn; the retry acts anew from here."""
    source: str = ""
    """Name of the reflector."""
    text: str = ""
    """What a policy or a language model wrote, word for word; empty for reflectors that write no text."""
    problem: str = ""
    """What was wrong with the text, by one of the names in :mod:`triage_gym.reflection.parsing`; empty for a sound one."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "remark": self.remark,
            "pivot": self.pivot,
            "source": self.source,
            "text": self.text,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, data: Any) -> Reflection:
        """The reflection written by :meth:`to_json`; raises InputError for anything else."""
        d = _object(data, "reflection")
        return cls(
            remark=_read(d, "remark", str, "reflection"),
            pivot=_read(d, "pivot", int, "reflection"),
            source=_read(d, "source", str, "reflection", ""),
            text=_read(d, "text", str, "reflection", ""),
            problem=_read(d, "problem", str, "reflection", ""),
        )


RestoreStrategy = Literal["none", "native", "copy", "replay", "restart"]
RESTORE_STRATEGIES: Final[tuple[RestoreStrategy, ...]] = get_args(RestoreStrategy)
RestoreStatus = Literal["none", "verified", "restarted", "mismatch"]
"""``none``: a fresh episode. ``verified``: the asked-for point was reached. ``restarted``: it was not, the attempt began
from the verified start. ``mismatch``: not even the start came back; what follows belongs to another episode."""
RESTORE_STATUSES: Final[tuple[RestoreStatus, ...]] = get_args(RestoreStatus)
RetryFrom = Literal["pivot", "start"]
"""Where a retry begins: at the pivot, or at the start with the same reflection (as LaMer does)."""
POLICY: Final = "policy"
"""The reflector that is the policy itself, and the ``source`` of the reflections that it writes."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A point of an episode that any process can go back to (:func:`triage_gym.restore.restore`).

    Its ``payload`` is the portable point as a JSON object: task id, seed and commands, with the options of the reset and
    the state of the generator before it.
    """

    fingerprint: str
    """Hash of the observation (and of the state, where the env offers one) at the point."""
    strategy: RestoreStrategy
    """How the payload leads there: by ``replay`` of its commands."""
    payload: Any = None
    """The portable point."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One attempt, whole: who it belongs to, what happened, what the judge said, how it ended."""

    group_id: str
    """Identity of the group: attempts with the same id started from the same task instance."""
    task_id: str = ""
    """The environment's name of the task instance, when it has one."""
    seed: int | None = None
    attempt: int = 0
    """0 for a first attempt, n for its n-th retry."""
    pivot: int = -1
    """First turn that was acted anew, or -1 for a first attempt."""
    prefix_length: int = 0
    """Number of leading segments that are copies from the failed attempt; they are never trained again."""
    task: str = ""
    """The instruction in words."""
    domain: str = "generic"
    """Family of the environment (``metadata["domain"]``); it picks the rule judge."""
    start_observation: str = ""
    """First observation of the attempt: members of a group must share it."""
    segments: tuple[Segment, ...] = ()
    labels: tuple[RoleLabel, ...] = ()
    """Empty when nothing judged the attempt, else one label a segment, in order."""
    score: float = 0.0
    """The verifier's graded result. Group advantages are made from it."""
    success: bool = False
    terminated: bool = False
    truncated: bool = False
    error: str | None = None
    """Why this attempt must not be trained (a crash, a restore that did not verify); None for a sound one."""
    trial: str = field(default="", compare=False)
    """Root of the lineage: attempts with the same ``group_id`` and ``trial`` are tries of one agent, one after another.

    A name, which may count what was played before: records of the same events are equal whatever it is."""
    parent: int = -1
    """``attempt`` of the failed attempt that this one retries, -1 for a first attempt."""
    restore_strategy: RestoreStrategy = "none"
    """How the environment was brought to the pivot."""
    restore_status: RestoreStatus = "none"
    """What the check of the restored point said."""
    reflection: Reflection | None = None
    """What this attempt began with: the reflection on ``parent``, itself a segment that a policy is trained on."""
    oracle_pivot: int = -1
    """The turn of ``parent`` that the environment's expert calls the earliest wrong one; -1 where nobody asked."""

    def __post_init__(self) -> None:
        if self.labels and len(self.labels) != len(self.segments):
            raise InputError(
                f"Expected no labels or one for each of the {len(self.segments)} segments of {self.group_id!r}, "
                f"got {len(self.labels)}"
            )
        for segment, label in zip(self.segments, self.labels, strict=False):
            if segment.index != label.step:
                raise InputError(
                    f"Expected the labels of {self.group_id!r} in the order of its segments, got one of step "
                    f"{label.step} for segment {segment.index}"
                )
        if not 0 <= self.prefix_length <= len(self.segments):
            raise InputError(
                f"Expected prefix_length in [0, {len(self.segments)}] in {self.group_id!r}, got {self.prefix_length}"
            )

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def roles(self) -> tuple[Role | None, ...]:
        """The role of each segment; all None when the attempt was not judged."""
        if not self.labels:
            return (None,) * len(self.segments)
        return tuple(label.role for label in self.labels)

    @property
    def prefix_mask(self) -> tuple[bool, ...]:
        """For each segment whether it is a copy from ``parent``, which is never trained again."""
        return tuple(k < self.prefix_length for k in range(len(self.segments)))

    def with_labels(self, labels: Sequence[RoleLabel]) -> EpisodeRecord:
        """The same attempt with other labels."""
        return replace(self, labels=tuple(labels))

    def to_json(self) -> dict[str, Any]:
        """A JSON object (version ``schema``) that :meth:`from_json` reads back."""
        return {
            "schema": SCHEMA,
            "group_id": self.group_id,
            "task_id": self.task_id,
            "seed": self.seed,
            "attempt": self.attempt,
            "pivot": self.pivot,
            "prefix_length": self.prefix_length,
            "task": self.task,
            "domain": self.domain,
            "start_observation": self.start_observation,
            "segments": [s.to_json() for s in self.segments],
            "labels": [x.to_json() for x in self.labels],
            "score": self.score,
            "success": self.success,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "error": self.error,
            "trial": self.trial,
            "parent": self.parent,
            "restore_strategy": self.restore_strategy,
            "restore_status": self.restore_status,
            "reflection": None if self.reflection is None else self.reflection.to_json(),
            "oracle_pivot": self.oracle_pivot,
        }

    @classmethod
    def from_json(cls, data: Any) -> EpisodeRecord:
        """The record written by :meth:`to_json`; raises InputError for anything else."""
        d = _object(data, "episode record")
        _check_schema(d, "episode record")
        where = "episode record"
        return cls(
            group_id=_read(d, "group_id", str, where),
            task_id=_read(d, "task_id", str, where, ""),
            seed=_read(d, "seed", (int, type(None)), where, None),
            attempt=_read(d, "attempt", int, where, 0),
            pivot=_read(d, "pivot", int, where, -1),
            prefix_length=_read(d, "prefix_length", int, where, 0),
            task=_read(d, "task", str, where, ""),
            domain=_read(d, "domain", str, where, "generic"),
            start_observation=_read(d, "start_observation", str, where, ""),
            segments=_list(d, "segments", where, Segment.from_json),
            labels=_list(d, "labels", where, RoleLabel.from_json),
            score=_read(d, "score", float, where, 0.0),
            success=_read(d, "success", bool, where, False),
            terminated=_read(d, "terminated", bool, where, False),
            truncated=_read(d, "truncated", bool, where, False),
            error=_read(d, "error", (str, type(None)), where, None),
            trial=_read(d, "trial", str, where, ""),
            parent=_read(d, "parent", int, where, -1),
            restore_strategy=_one_of(d, "restore_strategy", RESTORE_STRATEGIES, where),
            restore_status=_one_of(d, "restore_status", RESTORE_STATUSES, where),
            reflection=None if d.get("reflection") is None else Reflection.from_json(d["reflection"]),
            oracle_pivot=_read(d, "oracle_pivot", int, where, -1),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts at one task instance whose outcomes are compared."""

    group_id: str
    records: tuple[EpisodeRecord, ...]

    def __post_init__(self) -> None:
        for r in self.records:
            if r.group_id != self.group_id:
                raise GroupError(
                    f"Expected every record of group {self.group_id!r} to carry its id, got {r.group_id!r}"
                )

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {"schema": SCHEMA, "group_id": self.group_id, "records": [r.to_json() for r in self.records]}

    @classmethod
    def from_json(cls, data: Any) -> Group:
        """The group written by :meth:`to_json`; raises InputError for anything else."""
        d = _object(data, "group")
        _check_schema(d, "group")
        return cls(_read(d, "group_id", str, "group"), _list(d, "records", "group", EpisodeRecord.from_json))
