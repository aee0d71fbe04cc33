"""Helper modules of tests are imported by name, as `tests.web.service`."""
