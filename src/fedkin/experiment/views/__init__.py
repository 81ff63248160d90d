"""Content of a run's report, whatever the method."""

from fedkin.experiment.views.run_views import view_of, view_of_rounds

__all__ = ["view_of", "view_of_rounds"]
