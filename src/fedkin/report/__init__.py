"""Self-contained HTML pages: `fedkin.report.figures` says what is shown, `fedkin.report.page` draws it."""
