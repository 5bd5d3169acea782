"""Composes the rooms: plan, trial, execution, image set-up, smoke."""
