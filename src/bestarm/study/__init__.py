"""Ask, tell, and never lose a result: durable studies, their record in SQL, and the workers that measure."""

from bestarm.study.study import AlreadyTold, Status, Study, Test

__all__ = ["AlreadyTold", "Status", "Study", "Test"]
