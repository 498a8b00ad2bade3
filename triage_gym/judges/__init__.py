"""Judges: who labels segments with roles. :func:`label_record` and :func:`label_records` ask one about whole attempts."""

from triage_gym.judges.labelling import label_record, label_records

__all__ = ["label_record", "label_records"]
