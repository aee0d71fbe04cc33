"""What every storage must do. Run each of `STORAGE_CHECKS` on your own:

@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_my_storage(check, tmp_path):
    check(lambda: MyStorage(tmp_path / "studies"))

The function opens the same database, empty at first, anew at each call; checks close what they open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bestarm.testing.storages import giving, leases, reading, studies, telling, threads
from bestarm.testing.storages.common import MakeStorage

__all__ = ["STORAGE_CHECKS", "MakeStorage"]

STORAGE_CHECKS: Sequence[Callable[[MakeStorage], None]] = [
    studies.check_studies_are_found_again,
    studies.check_studies_do_not_mix,
    studies.check_an_archive_is_noted_once,
    studies.check_unknown_studies_and_tests_are_refused,
    telling.check_telling_is_idempotent,
    telling.check_values_come_back_to_the_last_bit,
    telling.check_several_results_are_told_together_or_not_at_all,
    telling.check_corrections_keep_history,
    telling.check_any_text_can_be_kept,
    leases.check_tests_are_issued_in_order,
    leases.check_planning_sees_what_was_handed_out,
    leases.check_a_failing_plan_changes_nothing,
    leases.check_a_lease_that_ran_out_is_handed_out_again,
    leases.check_a_live_lease_has_one_holder,
    leases.check_only_the_holder_can_let_go,
    leases.check_outcomes_end_leases,
    giving.check_given_results_withdraw_the_plan,
    giving.check_a_source_is_taken_once,
    reading.check_entries_stop_at_the_first_gap,
    reading.check_entries_have_the_last_correction_wherever_they_are_cut,
    reading.check_the_log_is_in_order,
    reading.check_history_has_every_test,
    reading.check_everything_is_there_after_reopening,
    threads.check_many_threads_at_once,
    threads.check_many_threads_create_one_study,
]
