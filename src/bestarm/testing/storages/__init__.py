"""What every storage must do. Run each of `STORAGE_CHECKS` on your own:

@pytest.mark.parametrize("check", STORAGE_CHECKS)
def test_my_storage(check, tmp_path):
    check(lambda: MyStorage(tmp_path / "studies"))

Each call of the function opens the same database, which is empty at first. Checks close what they open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bestarm.testing.storages import (
    amending,
    archiving,
    arriving,
    giving,
    items,
    leases,
    reading,
    repeating,
    several,
    studies,
    telling,
    threads,
)
from bestarm.testing.storages.common import MakeStorage

__all__ = ["STORAGE_CHECKS", "MakeStorage"]

STORAGE_CHECKS: Sequence[Callable[[MakeStorage], None]] = [
    studies.check_studies_are_found_again,
    studies.check_the_seed_of_items_is_kept,
    studies.check_studies_can_be_listed_in_pages,
    studies.check_studies_do_not_mix,
    studies.check_an_archive_is_noted_once,
    studies.check_the_last_remark_is_read,
    studies.check_unknown_studies_and_tests_are_refused,
    archiving.check_archived_studies_do_not_change,
    archiving.check_nothing_is_recorded_once_a_study_is_archived,
    telling.check_telling_is_idempotent,
    telling.check_values_come_back_to_the_last_bit,
    telling.check_several_results_are_told_together_or_not_at_all,
    telling.check_corrections_keep_history,
    telling.check_any_text_can_be_kept,
    leases.check_tests_are_issued_in_order,
    leases.check_planning_sees_what_was_handed_out,
    leases.check_a_failing_plan_leaves_nothing_handed_out,
    leases.check_a_plan_that_comes_too_late_is_made_again,
    leases.check_a_holder_has_at_most_so_many,
    leases.check_tests_of_who_falls_silent_are_handed_on,
    leases.check_silence_is_given_a_second_chance,
    leases.check_tests_without_a_heartbeat_stay_with_their_holder,
    leases.check_what_is_set_aside_waits_for_a_word,
    leases.check_a_live_lease_has_one_holder,
    leases.check_anybody_can_let_go_and_only_the_holder_can_hold_on,
    leases.check_pending_tests_can_be_read_in_pieces,
    leases.check_outcomes_end_leases,
    giving.check_given_results_withdraw_the_plan,
    giving.check_a_source_is_taken_once,
    repeating.check_results_under_one_request_are_given_once,
    repeating.check_tests_under_one_request_are_handed_out_once,
    repeating.check_everything_somebody_holds_is_freed_once,
    repeating.check_what_is_noted_under_one_request_is_noted_once,
    repeating.check_a_study_is_made_once_under_a_request,
    arriving.check_arrivals_are_in_the_order_of_telling,
    arriving.check_arrivals_keep_their_place,
    arriving.check_arrivals_of_many_threads,
    reading.check_entries_stop_at_the_first_gap,
    reading.check_entries_have_the_last_correction_wherever_they_are_cut,
    reading.check_the_log_is_in_order,
    reading.check_an_equal_change_mark_means_that_nothing_was_written,
    reading.check_history_has_every_test,
    reading.check_everything_is_there_after_reopening,
    several.check_several_values_are_told_at_once,
    several.check_telling_several_values_is_idempotent,
    several.check_further_values_come_back_to_the_last_bit,
    several.check_tests_of_one_and_of_several_values_are_told_together,
    several.check_corrections_replace_all_values,
    several.check_several_values_are_given_once,
    several.check_several_values_arrive_at_once,
    items.check_tests_keep_their_items,
    items.check_items_go_with_their_tests_to_the_next_holder,
    items.check_planned_items_are_there_after_reopening,
    items.check_results_on_items_are_given_once,
    items.check_places_are_given_when_nobody_else_can_take_them,
    items.check_items_of_arrivals,
    amending.check_an_amended_plan_is_read_by_everybody,
    amending.check_an_amendment_that_cannot_be_made_changes_nothing,
    amending.check_an_amendment_withdraws_what_is_planned,
    amending.check_an_amendment_may_leave_what_is_planned,
    amending.check_a_plan_made_before_an_amendment_is_made_again,
    amending.check_tests_of_retired_arms_are_given_up,
    amending.check_an_amendment_under_one_request_is_made_once,
    amending.check_amendments_of_many_threads_are_all_made,
    threads.check_many_threads_at_once,
    threads.check_many_threads_create_one_study,
]
