"""Agents as command lines. Only the scripted ones for now; their program is images/agent/scripted.py."""
