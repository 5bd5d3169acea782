"""Plans over the shipped fixtures, as for the pipeline's tests."""

from tests.unit.pipeline.conftest import make_plan

__all__ = ["make_plan"]
