"""Content of a run's report, taken from its records as a `RunView`; `fedkin.report` draws it as a page."""

from fedkin.experiment.report_content.run_content import view_of, view_of_rounds

__all__ = ["view_of", "view_of_rounds"]
