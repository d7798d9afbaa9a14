"""Lists of functions that have no rule of their own: recorded, constant or refused.

Each list was checked against finite differences (`tests/scipy/test_public.py`). A rule of the
subpackage's own module takes precedence; functions in no list raise by name.
"""

from __future__ import annotations

__all__ = ["COMPILED", "CONSTANT", "RECORDED", "REFUSED"]

# SciPy's own code consists of operations that tensors record, inside numpy_mode.
RECORDED = {
    "cluster.vq": "whiten",
    "fft": "fftshift ifftshift",
    "ndimage": """
        mean median standard_deviation sum sum_labels variance vectorized_filter
    """,
    "optimize": "rosen rosen_der",
    "signal": """
        abcd_normalize bode cheb1ord cheb2ord closest_STFT_dual_window deconvolve detrend
        ellipord envelope filtfilt firwin freqresp freqs freqs_zpk freqz_zpk gauss_spline
        group_delay hilbert2 invres invresz kaiser_atten lombscargle lp2hp lp2lp normalize
        resample_poly sos2tf sosfiltfilt sweep_poly tf2sos tf2zpk vectorstrength wiener
    """,
    "signal.windows": "gaussian general_gaussian kaiser kaiser_bessel_derived",
    "sparse": "kronsum",
    "sparse.linalg": "matrix_power",
    "spatial": "distance_matrix minkowski_distance minkowski_distance_p procrustes",
    "spatial.distance": "jensenshannon",
    "special": """
        assoc_laguerre h1vp h2vp ivp jvp kvp lambertw log_softmax logsumexp softmax softplus
        spherical_in spherical_jn spherical_kn spherical_yn yvp zeta
    """,
    "stats": """
        alexandergovern bartlett directional_stats gstd iqr jarque_bera kstat kstatvar
        kurtosistest levene lmoment median_abs_deviation mode normaltest obrientransform
        pointbiserialr quantile skewtest tmax tmin trim1 tsem ttest_ind_from_stats
    """,
    "stats.contingency": "expected_freq margins",
}

# Results without derivative, by reason: they stay the same if the values change a little.
CONSTANT = {
    "they are decided by the order of the values": {
        "stats": """
            ansari anderson_ksamp brunnermunzel bws_test chatterjeexi cramervonmises_2samp
            fligner friedmanchisquare kruskal ks_2samp mood page_trend_test percentileofscore
            quantile_test ranksums somersd spearmanrho tiecorrect weightedtau
        """,
        "signal": "argrelextrema argrelmax argrelmin find_peaks_cwt",
        "ndimage": "maximum_position minimum_position",
    },
    "pixels count as set or not": {
        "ndimage": """
            binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss
            binary_opening binary_propagation distance_transform_bf distance_transform_cdt
            distance_transform_edt iterate_structure
        """,
    },
    "its levels are constant between jumps": {"signal": "square"},
    "it labels or counts": {
        "ndimage": "find_objects histogram label value_indices watershed_ift",
        "cluster.hierarchy": """
            correspond cut_tree fcluster fclusterdata is_isomorphic is_monotonic is_valid_im
            is_valid_linkage leaders leaves_list num_obs_linkage
        """,
        "spatial.distance": "is_valid_dm is_valid_y num_obs_dm num_obs_y",
        "signal": "check_COLA check_NOLA choose_conv_method correlation_lags",
        "linalg": "find_best_blas_type get_blas_funcs get_lapack_funcs",
        "sparse": "get_index_dtype",
        "sparse.linalg": "is_sptriangular spbandwidth",
    },
}

# Functions whose errors give another reason than that a rule is missing.
REFUSED = {
    "it draws random numbers": {
        "linalg": "clarkson_woodruff_transform",
        "stats": """
            bootstrap goodness_of_fit monte_carlo_test multiscale_graphcorr permutation_test
            sobol_indices
        """,
    },
    "it searches among many points, and its result may jump": {
        "optimize": """
            basinhopping brute differential_evolution direct dual_annealing shgo
            linear_sum_assignment milp quadratic_assignment
        """,
    },
    "its result depends on which points are neighbours": {
        "spatial": """
            Delaunay ConvexHull Voronoi SphericalVoronoi HalfspaceIntersection tsearch
        """,
    },
    "it is compiled; scipy.spatial.KDTree has derivatives": {"spatial": "cKDTree"},
    "it is compiled; scipy.signal.convolve2d has derivatives": {"signal": "sepfir2d"},
}

# Those of them that are compiled, which no hook reaches: they raise when they read a tensor.
COMPILED = frozenset(
    ["ConvexHull", "Delaunay", "HalfspaceIntersection", "Voronoi", "cKDTree", "sepfir2d", "tsearch"]
)
