"""Estimators in the style of scikit-learn, whose ``fit`` takes several clients' data instead of one table.

An estimator's parameters are the options of its method, with the same names and defaults, plus those of
`fedkin.estimators.estimator.common_options`. A new one needs a line and a docstring, in `sample_estimators` if it
clusters the samples of unlabelled clients, in `client_estimators` if it clusters clients with labelled ones.
"""
