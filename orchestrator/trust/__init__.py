"""Decides whether a live run may begin: roles, signed approvals, and the gate that alone issues a permit."""
