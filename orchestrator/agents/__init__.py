"""Agents as command lines: scripted ones, a small chat agent, and the packaged ones that people use."""
