"""The reference pipeline: a heuristic baseline, whole from raw events to the text that an agent gets.

Read in this order: `store`, `capture`, `text`, `cues`, `extract`, `policy`, `memories`, `retrieve`, `adapter`.
"""
