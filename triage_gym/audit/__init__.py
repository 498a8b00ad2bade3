"""How good a judge is: label files, agreement, calibration, and what its labels would do to credit."""
