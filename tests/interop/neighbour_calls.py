"""Calls of pandas, scikit-learn, xarray and matplotlib on constants, by name of the package.

Each takes the package and returns what it computes. The arrays are made here, outside of any mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CALLS"]

_random = np.random.default_rng(11)
X = _random.normal(size=(30, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * _random.normal(size=30)
LABELS = (Y > 0).astype(int)
V = np.array([1.0, 3.0, 2.0, np.nan, 5.0])
KEYS = np.array(["a", "b", "a", "b", "a"])


def _frame(pd: Any) -> Any:
    return pd.DataFrame({"key": KEYS, "value": V, "other": V[::-1]})


def _fit(path: str, **options: Any) -> Callable[[Any], Any]:
    """Fits an estimator and predicts."""
    module, name = path.rsplit(".", 1)

    def call(sklearn: Any) -> Any:
        kind = getattr(__import__(f"sklearn.{module}", fromlist=[name]), name)
        estimator = kind(**options)
        target = LABELS if hasattr(estimator, "predict_proba") or "SVC" in name else Y
        estimator.fit(X, target)
        if hasattr(estimator, "predict"):
            return estimator.predict(X)
        return estimator.transform(X)

    return call


def _plot(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Draws on the canvas without a window, and returns the picture."""

    def call(matplotlib: Any) -> Any:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        del matplotlib
        figure = Figure(figsize=(2, 2), dpi=40)
        canvas = FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        canvas.draw()
        return np.asarray(canvas.buffer_rgba()).copy()

    return call


def _array(xr: Any) -> Any:
    return xr.DataArray(X, dims=("time", "place"), coords={"place": [1, 2, 3]})


CALLS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "pandas": {
        "Series": lambda pd: pd.Series(V),
        "Series of ones": lambda pd: pd.Series(np.full(3, 1.0), index=list("abc")),
        "DataFrame": _frame,
        "mean": lambda pd: _frame(pd)[["value", "other"]].mean(),
        "describe": lambda pd: _frame(pd).describe(),
        "groupby sum": lambda pd: _frame(pd).groupby("key").sum(),
        "groupby agg": lambda pd: _frame(pd).groupby("key")["value"].agg(["mean", "std"]),
        "agg np.sum": lambda pd: _frame(pd)[["value"]].agg("sum"),
        "rolling": lambda pd: pd.Series(V).rolling(2).mean(),
        "fillna": lambda pd: pd.Series(V).fillna(0.0),
        "interpolate": lambda pd: pd.Series(V).interpolate(),
        "merge": lambda pd: _frame(pd).merge(_frame(pd), on="key"),
        "pivot_table": lambda pd: _frame(pd).pivot_table(index="key", values="value"),
        "sort_values": lambda pd: _frame(pd).sort_values("value"),
        "cut": lambda pd: pd.cut(V, 3),
        "corr": lambda pd: _frame(pd)[["value", "other"]].corr(),
        "apply": lambda pd: _frame(pd)[["value", "other"]].apply(lambda column: column.max()),
        "resample": lambda pd: (
            pd.Series(V, pd.date_range("2020-01-01", periods=5, freq="D")).resample("2D").sum()
        ),
        "ewm": lambda pd: pd.Series(V).ewm(span=2).mean(),
        "quantile": lambda pd: pd.Series(V).quantile([0.2, 0.5]),
    },
    "sklearn": {
        "LinearRegression": _fit("linear_model.LinearRegression"),
        "Ridge": _fit("linear_model.Ridge"),
        "Lasso": _fit("linear_model.Lasso", alpha=0.1),
        "LogisticRegression": _fit("linear_model.LogisticRegression"),
        "PCA": _fit("decomposition.PCA", n_components=2),
        "StandardScaler": _fit("preprocessing.StandardScaler"),
        "PolynomialFeatures": _fit("preprocessing.PolynomialFeatures"),
        "KMeans": _fit("cluster.KMeans", n_clusters=2, random_state=0, n_init=1),
        "DecisionTree": _fit("tree.DecisionTreeRegressor", random_state=0),
        "RandomForest": _fit("ensemble.RandomForestClassifier", n_estimators=3, random_state=0),
        "SVC": _fit("svm.SVC"),
        "KNeighbors": _fit("neighbors.KNeighborsClassifier"),
        "GaussianNB": _fit("naive_bayes.GaussianNB"),
        "GaussianProcess": _fit("gaussian_process.GaussianProcessRegressor", alpha=0.1),
        "train_test_split": lambda sklearn: __import__(
            "sklearn.model_selection", fromlist=["x"]
        ).train_test_split(X, Y, random_state=0),
    },
    "xarray": {
        "DataArray": _array,
        "mean": lambda xr: _array(xr).mean("time"),
        "sel": lambda xr: _array(xr).sel(place=2),
        "arithmetic": lambda xr: (_array(xr) * 2 + 1).sum(),
        "where": lambda xr: _array(xr).where(_array(xr) > 0),
        "groupby": lambda xr: _array(xr).groupby("place").mean(),
        "rolling": lambda xr: _array(xr).rolling(time=3).mean(),
        "concat": lambda xr: xr.concat([_array(xr), _array(xr)], "time"),
        "Dataset": lambda xr: xr.Dataset({"a": _array(xr)}).max(),
        "interp": lambda xr: _array(xr).interp(place=[1.5]),
    },
    "matplotlib": {
        "plot": _plot(lambda axes: axes.plot(X[:, 0])),
        "scatter": _plot(lambda axes: axes.scatter(X[:, 0], X[:, 1])),
        "hist": _plot(lambda axes: axes.hist(Y, bins=5)),
        "imshow": _plot(lambda axes: axes.imshow(X)),
        "contour": _plot(lambda axes: axes.contour(X @ X.T)),
        "bar": _plot(lambda axes: axes.bar([1, 2, 3], X[0])),
    },
}
