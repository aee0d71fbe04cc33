"""Ask, tell, and never lose a result: durable studies, their record in SQL, and the workers that measure."""

from bestarm.analysis.status.status import Status
from bestarm.study.study import AlreadyTold, Study, Test

__all__ = ["AlreadyTold", "Status", "Study", "Test"]
