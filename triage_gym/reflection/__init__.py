"""Reflectors: who names the earliest wrong turn of a failed attempt."""
