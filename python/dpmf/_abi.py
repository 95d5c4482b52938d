# SPDX-License-Identifier: Apache-2.0
# Written by python/tools/generate_abi.py from include/dpmf.h: change the header and run it again.
"""The C interface as ctypes sees it: constants, enums, structures and prototypes, under their C names."""
import enum
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

DPMF_VERSION_MAJOR = 0
DPMF_VERSION_MINOR = 1
DPMF_VERSION_PATCH = 0
DPMF_VERSION = "0.1.0"
DPMF_FAMILY_IDENTITY = "identity"
DPMF_FAMILY_WORKLOAD = "workload"
DPMF_FAMILY_DENSE = "dense"
DPMF_FAMILY_BANDED = "banded"
DPMF_FAMILY_TOEPLITZ = "toeplitz"
DPMF_FAMILY_BANDED_TOEPLITZ = "banded-toeplitz"
DPMF_FAMILY_BSR = "bsr"
DPMF_FAMILY_BISR = "bisr"
DPMF_FAMILY_BLT = "blt"
DPMF_FAMILY_BLT_RATIONAL = "blt-rational"
DPMF_FAMILY_BLT_TREE = "blt-tree"
DPMF_FAMILY_RECURRENT = "recurrent"
DPMF_FAMILY_TVBLT = "tvblt"
DPMF_FAMILY_UNBOUNDED = "unbounded"
DPMF_FAMILY_LOWRANK = "lowrank"
DPMF_FAMILY_TAPS = "taps"
DPMF_FAMILY_TREE = "tree"
DPMF_FAMILY_TREE_ONLINE = "tree-online"
DPMF_FAMILY_TREE_FULL = "tree-full"
DPMF_FAMILY_SMOOTH_BINARY = "smooth-binary"
DPMF_FAMILY_FFT = "fft"
DPMF_FAMILY_FFT_OPT = "fft-opt"
DPMF_RECURRENT_MAX = 32
DPMF_BLT_BUFFERS_MAX = 16
DPMF_LOWRANK_MAX = 64
DPMF_TRIANGULAR_STEPS_MAX = 16384
DPMF_DENSE_STEPS_MAX = 8192
DPMF_STREAM_VERSION = 2
DPMF_KEY_SIZE = 32
DPMF_SALT_SIZE = 32
DPMF_DIGEST_SIZE = 32
DPMF_VERIFY_WHOLE_STEPS = 2000


class dpmf_status(enum.IntEnum):
    DPMF_OK = 0
    DPMF_ERROR_ARGUMENT = 1
    DPMF_ERROR_MEMORY = 2
    DPMF_ERROR_IO = 3
    DPMF_ERROR_FORMAT = 4
    DPMF_ERROR_NUMERICAL = 5
    DPMF_ERROR_UNSUPPORTED = 6
    DPMF_ERROR_CANCELLED = 7


class dpmf_participation_kind(enum.IntEnum):
    DPMF_PARTICIPATION_SINGLE = 0
    DPMF_PARTICIPATION_CYCLIC = 1
    DPMF_PARTICIPATION_MIN_SEPARATION = 2
    DPMF_PARTICIPATION_SHUFFLED = 3
    DPMF_PARTICIPATION_FULL = 4
    DPMF_PARTICIPATION_PATTERNS = 5


class dpmf_decoder(enum.IntEnum):
    DPMF_DECODER_DEFAULT = 0
    DPMF_DECODER_RESTART = 1
    DPMF_DECODER_OPTIMAL = 2


class dpmf_toeplitz_shape(enum.IntEnum):
    DPMF_TOEPLITZ = 0
    DPMF_TOEPLITZ_BANDED = 1
    DPMF_TOEPLITZ_INVERSE = 2


class dpmf_certainty(enum.IntEnum):
    DPMF_EXACT = 0
    DPMF_UPPER_BOUND = 1
    DPMF_LOWER_BOUND = 2
    DPMF_ESTIMATE = 3


class dpmf_adjacency(enum.IntEnum):
    DPMF_ADJACENCY_ZERO_OUT = 0
    DPMF_ADJACENCY_ADD_REMOVE = 1
    DPMF_ADJACENCY_REPLACE_ONE = 2


class dpmf_sensitivity_scope(enum.IntEnum):
    DPMF_SENSITIVITY_PARTICIPATION = 0
    DPMF_SENSITIVITY_COLUMN = 1


class dpmf_sensitivity_bound(enum.IntEnum):
    DPMF_BOUND_AUTO = 0
    DPMF_BOUND_SPECTRAL = 1
    DPMF_BOUND_ABSOLUTE = 2
    DPMF_BOUND_SIGNS = 3


class dpmf_lower_bound_mode(enum.IntEnum):
    DPMF_LOWER_BOUND_AUTO = 0
    DPMF_LOWER_BOUND_NONE = 1
    DPMF_LOWER_BOUND_FORCE = 2


class dpmf_loss(enum.IntEnum):
    DPMF_LOSS_RMS = 0
    DPMF_LOSS_MAX = 1
    DPMF_LOSS_LP = 2
    DPMF_LOSS_LAST = 3
    DPMF_LOSS_OWN = 4


class dpmf_outcome(enum.IntEnum):
    DPMF_CONVERGED = 0
    DPMF_ITERATION_LIMIT = 1


class dpmf_constraint(enum.IntEnum):
    DPMF_CONSTRAINT_ZERO = 0
    DPMF_CONSTRAINT_NON_NEGATIVE = 1
    DPMF_CONSTRAINT_CORNERS = 2


class dpmf_normalize(enum.IntEnum):
    DPMF_NORMALIZE_NONE = 0
    DPMF_NORMALIZE_AFTER = 1
    DPMF_NORMALIZE_WITHIN = 2


class dpmf_signs(enum.IntEnum):
    DPMF_SIGNS_AUTO = 0
    DPMF_SIGNS_NON_NEGATIVE = 1
    DPMF_SIGNS_ANY = 2


class dpmf_sampling_kind(enum.IntEnum):
    DPMF_SAMPLING_NONE = 0
    DPMF_SAMPLING_POISSON = 1
    DPMF_SAMPLING_BLOCK_CYCLIC = 2
    DPMF_SAMPLING_BALLS_IN_BINS = 3
    DPMF_SAMPLING_MIN_SEPARATION = 4
    DPMF_SAMPLING_ALLOCATION = 5
    DPMF_SAMPLING_FIXED = 6
    DPMF_SAMPLING_FIXED_REPLACE = 7


class dpmf_engine(enum.IntEnum):
    DPMF_ENGINE_AUTO = 0
    DPMF_ENGINE_FOURIER = 1
    DPMF_ENGINE_CONNECT_THE_DOTS = 2
    DPMF_ENGINE_RDP = 3
    DPMF_ENGINE_MONTE_CARLO = 4


class dpmf_tuning_kind(enum.IntEnum):
    DPMF_TUNING_POISSON = 0
    DPMF_TUNING_NEGATIVE_BINOMIAL = 1


class dpmf_precision(enum.IntEnum):
    DPMF_FLOAT32 = 0
    DPMF_FLOAT64 = 1


class dpmf_release(enum.IntEnum):
    DPMF_RELEASE_AUTO = 0
    DPMF_RELEASE_EXACT = 1
    DPMF_RELEASE_PLAIN = 2


class dpmf_input(enum.IntEnum):
    DPMF_INPUT_COUNT = 0
    DPMF_INPUT_VERIFY = 1
    DPMF_INPUT_RESTART = 2


class dpmf_workload(Structure):
    pass


class dpmf_participation(Structure):
    pass


class dpmf_strategy(Structure):
    pass


class dpmf_ledger(Structure):
    pass


class dpmf_mechanism(Structure):
    pass


class dpmf_noise_maker(Structure):
    pass


class dpmf_noise(Structure):
    pass


class dpmf_counter(Structure):
    pass


class dpmf_design(Structure):
    pass


class dpmf_plan(Structure):
    pass


class dpmf_verification(Structure):
    pass


class dpmf_sampler(Structure):
    pass


class dpmf_audit(Structure):
    pass


class dpmf_run(Structure):
    _fields_ = [
        ("threads", c_int),
        ("progress", CFUNCTYPE(c_int, c_void_p, c_char_p, c_double)),
        ("context", c_void_p),
    ]


class dpmf_workload_options(Structure):
    _fields_ = [
        ("momentum", c_double),
        ("nesterov", c_int),
        ("decay", c_double),
        ("learning_rate", POINTER(c_double)),
        ("rows", c_int64),
        ("matrix", POINTER(c_double)),
        ("parts", c_int),
        ("part", POINTER(POINTER(dpmf_workload))),
        ("part_weights", POINTER(c_double)),
    ]


class dpmf_workload_info(Structure):
    _fields_ = [
        ("steps", c_int64),
        ("text", c_char_p),
        ("is_toeplitz", c_int),
        ("inverse_q_bands", c_int),
        ("inverse_r_bands", c_int),
        ("rows", c_int64),
    ]


class dpmf_participation_info(Structure):
    _fields_ = [
        ("kind", c_int),
        ("steps", c_int64),
        ("count", c_int64),
        ("separation", c_int64),
        ("is_single", c_int),
        ("text", c_char_p),
    ]


class dpmf_strategy_options(Structure):
    _fields_ = [
        ("bands", c_int64),
        ("nu", c_double),
        ("stamps", c_int64),
        ("decoder", c_int),
        ("column_normalize", c_int),
        ("buffers", c_int64),
        ("levels", c_int64),
        ("branching", c_int64),
        ("matrix_rows", c_int64),
        ("matrix", POINTER(c_double)),
        ("decoder_matrix", POINTER(c_double)),
        ("u", POINTER(c_double)),
        ("v", POINTER(c_double)),
    ]


class dpmf_family(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("help", c_char_p),
        ("listed", c_char_p),
        ("parameters", c_char_p),
        ("closed_form", c_int),
        ("bands", c_int),
        ("inverse", c_int),
        ("nu", c_int),
        ("toeplitz", c_int),
        ("restart", c_char_p),
        ("optimal", c_char_p),
        ("optimized", c_int),
        ("optimize_bands", c_int),
        ("optimize_buffers", c_int),
        ("optimize_chooses", c_int),
        ("optimize_shared_seeds", c_int),
        ("optimize_normalize", c_int),
        ("optimize_constraint", c_int),
        ("optimize_variants", c_int),
        ("designed", c_int),
        ("buffers", c_int),
        ("levels", c_int),
        ("branching", c_int),
        ("optimize_signs", c_int),
        ("optimize_damped", c_int),
        ("optimize_losses", c_int),
    ]


class dpmf_strategy_info(Structure):
    _fields_ = [
        ("family", c_char_p),
        ("steps", c_int64),
        ("rows", c_int64),
        ("bands", c_int64),
        ("buffers", c_int64),
        ("stamps", c_int64),
        ("normals", c_double),
        ("is_normalized", c_int),
        ("streams", c_int),
        ("blt_buffers", c_int),
        ("blt_scale", POINTER(c_double)),
        ("blt_gap", POINTER(c_double)),
        ("branching", c_int64),
        ("blt_inverse_scale", POINTER(c_double)),
        ("blt_inverse_gap", POINTER(c_double)),
    ]


class dpmf_sensitivity(Structure):
    _fields_ = [
        ("value", c_double),
        ("kind", c_int),
        ("of", c_int),
        ("method", c_char_p),
        ("columns", c_int64),
    ]


class dpmf_loss_function(Structure):
    _fields_ = [
        ("value", CFUNCTYPE(c_double, c_void_p, c_int64, POINTER(c_double), POINTER(c_double))),
        ("context", c_void_p),
        ("convex", c_int),
    ]


class dpmf_evaluate_options(Structure):
    _fields_ = [
        ("adjacency", c_int),
        ("sensitivity", c_int),
        ("lower_bound", c_int),
        ("weights", POINTER(c_double)),
        ("of", c_int),
        ("run", dpmf_run),
        ("columns", c_int64),
        ("loss", c_int),
        ("loss_power", c_double),
        ("own_loss", POINTER(dpmf_loss_function)),
        ("squares", c_double),
        ("squares_of", POINTER(dpmf_strategy)),
    ]


class dpmf_lower_bound(Structure):
    _fields_ = [
        ("rms_loss", c_double),
        ("max_loss", c_double),
        ("scope", c_char_p),
    ]


class dpmf_evaluation(Structure):
    _fields_ = [
        ("sensitivity", dpmf_sensitivity),
        ("rms_loss", c_double),
        ("max_loss", c_double),
        ("total_squared_loss", c_double),
        ("lower_bound", dpmf_lower_bound),
        ("loss", c_double),
    ]


class dpmf_optimize_options(Structure):
    _fields_ = [
        ("loss", c_int),
        ("bands", c_int64),
        ("buffers", c_int),
        ("wanted_ratio", c_double),
        ("shared_seeds", c_int),
        ("normalize", c_int),
        ("constraint", c_int),
        ("sweep", c_int),
        ("taper", c_int64),
        ("tolerance", c_double),
        ("weights", POINTER(c_double)),
        ("run", dpmf_run),
        ("signs", c_int),
        ("damped", c_int),
        ("loss_power", c_double),
        ("own_loss", POINTER(dpmf_loss_function)),
        ("stamps", c_int64),
        ("stamp_participation", POINTER(dpmf_participation)),
        ("closed_form", POINTER(dpmf_strategy_options)),
    ]


class dpmf_optimization(Structure):
    _fields_ = [
        ("outcome", c_int),
        ("iterations", c_int),
        ("nodes", c_int),
        ("optimum_lower", c_double),
        ("optimum_upper", c_double),
        ("scope", c_char_p),
        ("stationarity", c_double),
        ("searched", c_char_p),
        ("dropped", c_int),
        ("nu", c_double),
    ]


class dpmf_sampling(Structure):
    _fields_ = [
        ("kind", c_int),
        ("probability", c_double),
        ("count", c_int64),
        ("picks", c_int64),
        ("cap", c_int64),
        ("units", c_int64),
    ]


class dpmf_coverage(Structure):
    _fields_ = [
        ("unit", c_char_p),
        ("unit_named", c_int),
        ("family", c_char_p),
        ("digest", c_char_p),
        ("participation", dpmf_participation_info),
        ("sensitivity", dpmf_sensitivity),
        ("correlated", c_int),
        ("clip", c_double),
        ("done", c_int64),
        ("first", c_int64),
    ]


class dpmf_account_options(Structure):
    _fields_ = [
        ("sampling", dpmf_sampling),
        ("compositions", c_int64),
        ("strategy", POINTER(dpmf_strategy)),
        ("adjacency", c_int),
        ("epochs", c_int64),
        ("batch_cap", c_int64),
        ("units", c_int64),
        ("sigma_unit", c_double),
        ("engine", c_int),
        ("slack", c_double),
        ("confidence", c_double),
        ("unconditional", c_int),
        ("warm", c_int),
        ("samples", c_int64),
        ("seed", c_uint64),
        ("run", dpmf_run),
        ("covered", dpmf_coverage),
        ("group", c_int64),
    ]


class dpmf_privacy(Structure):
    _fields_ = [
        ("epsilon", c_double),
        ("delta", c_double),
        ("sigma", c_double),
        ("mu", c_double),
        ("rho", c_double),
        ("total_mu", c_double),
        ("total_rho", c_double),
        ("kind", c_int),
        ("confidence", c_double),
        ("compositions", c_int64),
        ("probability", c_double),
        ("method", c_char_p),
        ("slack_met", c_int),
        ("without_sampling", c_double),
    ]


class dpmf_sampling_facts(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("form", c_char_p),
        ("composes", c_int),
        ("allocates", c_int),
        ("simulated", c_int),
        ("waits", c_int),
        ("cappable", c_int),
        ("fixed", c_int),
    ]


class dpmf_risk_options(Structure):
    _fields_ = [
        ("fpr", POINTER(c_double)),
        ("count", c_int64),
        ("prior", c_double),
        ("remainder", c_double),
    ]


class dpmf_risk(Structure):
    _fields_ = [
        ("advantage", c_double),
        ("prior", c_double),
        ("bayes_error", c_double),
        ("mu", c_double),
        ("remainder", c_double),
        ("kind", c_int),
        ("confidence", c_double),
        ("method", c_char_p),
    ]


class dpmf_tuning(Structure):
    _fields_ = [
        ("kind", c_int),
        ("mean", c_double),
        ("eta", c_double),
        ("gamma", c_double),
    ]


class dpmf_design_limits(Structure):
    _fields_ = [
        ("dim", c_int64),
        ("memory", c_uint64),
        ("max_overhead", c_double),
        ("loss", c_int),
        ("separation_high", c_int64),
        ("loss_power", c_double),
    ]


class dpmf_mechanism_info(Structure):
    _fields_ = [
        ("workload", POINTER(dpmf_workload)),
        ("participation", POINTER(dpmf_participation)),
        ("strategy", POINTER(dpmf_strategy)),
        ("weights", POINTER(c_double)),
        ("evaluation", dpmf_evaluation),
        ("adjacency", c_int),
        ("sensitivity_bound", c_int),
        ("sampling", dpmf_sampling),
        ("sigma", c_double),
        ("epsilon", c_double),
        ("delta", c_double),
        ("made_by", c_char_p),
        ("unit", c_char_p),
        ("digest", c_char_p),
        ("designed", dpmf_design_limits),
        ("response", c_double),
        ("group", c_int64),
    ]


class dpmf_mechanism_options(Structure):
    _fields_ = [
        ("evaluate", dpmf_evaluate_options),
        ("sigma", c_double),
        ("sampling", dpmf_sampling),
        ("epsilon", c_double),
        ("delta", c_double),
        ("made_by", c_char_p),
        ("unit", c_char_p),
        ("designed", dpmf_design_limits),
        ("group", c_int64),
    ]


class dpmf_ledger_options(Structure):
    _fields_ = [
        ("budget_epsilon", c_double),
        ("budget_delta", c_double),
        ("what", c_char_p),
        ("binding", c_char_p),
        ("times", c_int64),
        ("run", dpmf_run),
        ("salt", POINTER(c_uint8)),
    ]


class dpmf_ledger_receipt(Structure):
    _fields_ = [
        ("entered", c_int),
        ("entries", c_int64),
        ("budget_epsilon", c_double),
        ("budget_delta", c_double),
        ("privacy", dpmf_privacy),
    ]


class dpmf_noise_options(Structure):
    _fields_ = [
        ("precision", c_int),
        ("offset", c_int64),
        ("count", c_int64),
        ("lookahead", c_int64),
        ("prefetch", c_int),
        ("label", c_char_p),
        ("state", c_char_p),
        ("replay", c_int),
        ("whole_state", c_int),
        ("scratch", c_char_p),
        ("key_file", c_char_p),
        ("rows_may_repeat", c_int),
        ("run", dpmf_run),
        ("exact", c_int),
        ("grid", c_double),
        ("maker", POINTER(dpmf_noise_maker)),
        ("uncalibrated", c_int),
        ("salt", POINTER(c_uint8)),
        ("state_now", c_int),
        ("memory", c_uint64),
    ]


class dpmf_segment(Structure):
    _fields_ = [
        ("memory", c_void_p),
        ("count", c_int64),
    ]


class dpmf_exact(Structure):
    _fields_ = [
        ("grid", c_double),
        ("sensitivity", c_double),
        ("rounding", c_double),
        ("arithmetic", c_double),
        ("scale", c_double),
    ]


class dpmf_noise_info(Structure):
    _fields_ = [
        ("step", c_int64),
        ("count", c_int64),
        ("reserved", c_int64),
        ("in_doubt", c_int),
        ("calibrated", c_int),
        ("grid", c_double),
        ("release", dpmf_exact),
        ("salt", c_uint8 * 32),
    ]


class dpmf_ledger_info(Structure):
    _fields_ = [
        ("entries", c_int64),
        ("budget_epsilon", c_double),
        ("budget_delta", c_double),
        ("adjacency", c_int),
    ]


class dpmf_counter_options(Structure):
    _fields_ = [
        ("label", c_char_p),
        ("state", c_char_p),
        ("key_file", c_char_p),
        ("rows_may_repeat", c_int),
        ("clip_rows", c_int),
        ("run", dpmf_run),
        ("release", c_int),
        ("uncalibrated", c_int),
        ("state_now", c_int),
    ]


class dpmf_int128(Structure):
    _fields_ = [
        ("low", c_uint64),
        ("high", c_int64),
    ]


class dpmf_counter_info(Structure):
    _fields_ = [
        ("step", c_int64),
        ("columns", c_int64),
        ("last_rows", c_int64),
        ("calibrated", c_int),
        ("places", c_int),
        ("scale", c_double),
        ("grid", c_double),
        ("limit", dpmf_int128),
        ("input_size", c_int64),
        ("salt", c_uint8 * 32),
    ]


class dpmf_design_options(Structure):
    _fields_ = [
        ("epochs", c_int64),
        ("epsilon", c_double),
        ("delta", c_double),
        ("dim", c_int64),
        ("memory", c_uint64),
        ("max_overhead", c_double),
        ("sampling", c_int),
        ("any_sampling", c_int),
        ("batch_cap", c_int64),
        ("units", c_int64),
        ("families", c_char_p),
        ("loss", c_int),
        ("adjacency", c_int),
        ("precision", c_int),
        ("federated", c_int),
        ("separation_low", c_int64),
        ("separation_high", c_int64),
        ("measure", c_int),
        ("tolerance", c_double),
        ("unit", c_char_p),
        ("run", dpmf_run),
        ("loss_power", c_double),
        ("participation", POINTER(dpmf_participation)),
        ("stamps", c_int64),
        ("group", c_int64),
    ]


class dpmf_design_info(Structure):
    _fields_ = [
        ("mechanism", POINTER(dpmf_mechanism)),
        ("privacy", dpmf_privacy),
        ("why", c_char_p),
        ("warnings", c_int64),
        ("count", c_int64),
        ("chosen", c_int64),
        ("sampling_would_save", c_double),
    ]


class dpmf_candidate(Structure):
    _fields_ = [
        ("family", c_char_p),
        ("sampling", dpmf_sampling),
        ("bands", c_int64),
        ("buffers", c_int64),
        ("normalized", c_int),
        ("is_search_point", c_int),
        ("sigma", c_double),
        ("sigma_kind", c_int),
        ("sensitivity", dpmf_sensitivity),
        ("rms_loss", c_double),
        ("max_loss", c_double),
        ("noise_rms", c_double),
        ("noise_max", c_double),
        ("memory_bytes", c_uint64),
        ("seconds_per_step", c_double),
        ("overhead", c_double),
        ("ratio", c_double),
        ("eligible", c_int),
        ("reason", c_char * 256),
        ("normals_per_number", c_double),
        ("account", c_char_p),
        ("confidence", c_double),
        ("worst_ratio", c_double),
        ("worst_at", c_int64),
        ("loss", c_double),
        ("noise", c_double),
        ("stamps", c_int64),
    ]


class dpmf_plan_options(Structure):
    _fields_ = [
        ("units", c_int64),
        ("epochs_low", c_double),
        ("epochs_high", c_double),
        ("batch_low", c_int64),
        ("batch_high", c_int64),
        ("workload", c_char_p),
        ("within", c_double),
        ("design", dpmf_design_options),
    ]


class dpmf_plan_row(Structure):
    _fields_ = [
        ("epochs", c_double),
        ("steps", c_int64),
        ("batch", c_double),
        ("chosen", dpmf_candidate),
        ("independent", dpmf_candidate),
        ("noise_per_epoch", c_double),
        ("independent_noise_per_epoch", c_double),
        ("seconds_per_step", c_double),
        ("best_of_epochs", c_int),
    ]


class dpmf_plan_info(Structure):
    _fields_ = [
        ("rows", POINTER(dpmf_plan_row)),
        ("count", c_int64),
        ("recommended", c_int64),
        ("mechanism", POINTER(dpmf_mechanism)),
        ("privacy", dpmf_privacy),
        ("rule", c_char_p),
        ("why", c_char_p),
        ("text", c_char_p),
    ]


class dpmf_check(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("ok", c_int),
        ("claimed", c_double),
        ("found", c_double),
        ("tolerance", c_double),
        ("how", c_char * 200),
    ]


class dpmf_verify_source(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("bytes", POINTER(c_uint8)),
        ("size", c_size_t),
        ("mechanism", POINTER(dpmf_mechanism)),
    ]


class dpmf_verification_info(Structure):
    _fields_ = [
        ("ok", c_int),
        ("count", c_int64),
    ]


class dpmf_sampler_info(Structure):
    _fields_ = [
        ("step", c_int64),
        ("capacity", c_int64),
        ("expected", c_double),
        ("participation", c_char_p),
        ("sampling", dpmf_sampling),
        ("text", c_char_p),
    ]


class dpmf_sampler_identity(Structure):
    _fields_ = [
        ("units", c_int64),
        ("steps", c_int64),
        ("offered", c_int),
        ("key", c_char * 33),
        ("label", c_char * 65),
    ]


class dpmf_array(Structure):
    _fields_ = [
        ("dimensions", c_int),
        ("shape", c_int64 * 2),
        ("values", POINTER(c_double)),
    ]


class dpmf_audit_run(Structure):
    _fields_ = [
        ("mechanism", POINTER(dpmf_mechanism)),
        ("sampler", POINTER(dpmf_sampler)),
        ("key", POINTER(c_uint8)),
        ("canaries", c_int64),
        ("steps", c_int64),
        ("sign", POINTER(c_double)),
        ("released", POINTER(c_double)),
        ("run", dpmf_run),
    ]


class dpmf_audit_record(Structure):
    _fields_ = [
        ("included", POINTER(c_uint8)),
        ("taken", POINTER(c_uint8)),
        ("released", POINTER(c_double)),
    ]


class dpmf_audit_options(Structure):
    _fields_ = [
        ("train", CFUNCTYPE(c_int, c_void_p, POINTER(dpmf_audit_run))),
        ("train_context", c_void_p),
        ("canaries", c_int64),
        ("confidence", c_double),
        ("epsilon", c_double),
        ("delta", c_double),
        ("noise_factor", c_double),
        ("key", POINTER(c_uint8)),
        ("record", POINTER(dpmf_audit_record)),
        ("run", dpmf_run),
    ]


class dpmf_audit_result(Structure):
    _fields_ = [
        ("epsilon_lower", c_double),
        ("epsilon_guesses", c_double),
        ("epsilon_gaussian", c_double),
        ("epsilon_claimed", c_double),
        ("delta", c_double),
        ("confidence", c_double),
        ("canaries", c_int64),
        ("included", c_int64),
        ("guesses", c_int64),
        ("correct", c_int64),
        ("tpr", c_double),
        ("fpr", c_double),
        ("sigma_claimed", c_double),
        ("sigma_measured", c_double),
        ("sigma_highest", c_double),
    ]


class dpmf_audit_info(Structure):
    _fields_ = [
        ("result", dpmf_audit_result),
        ("scores", POINTER(c_double)),
        ("included", POINTER(c_uint8)),
    ]


# name: (type of the answer, types of the arguments); dpmf_status says that the answer must be checked
FUNCTIONS = {
    "dpmf_version": (c_char_p, []),
    "dpmf_last_error": (c_char_p, []),
    "dpmf_run_defaults": (dpmf_run, []),
    "dpmf_status_name": (c_char_p, [c_int]),
    "dpmf_bytes_free": (None, [POINTER(c_uint8)]),
    "dpmf_workload_parse": (dpmf_status, [c_char_p, c_int64, POINTER(POINTER(dpmf_workload))]),
    "dpmf_workload_free": (None, [POINTER(dpmf_workload)]),
    "dpmf_workload_options_defaults": (dpmf_workload_options, []),
    "dpmf_workload_create": (dpmf_status, [c_int64, POINTER(dpmf_workload_options), POINTER(POINTER(dpmf_workload))]),
    "dpmf_workload_get": (dpmf_workload_info, [POINTER(dpmf_workload)]),
    "dpmf_workload_create_dense": (dpmf_status, [c_int64, POINTER(c_double), POINTER(POINTER(dpmf_workload))]),
    "dpmf_workload_apply": (dpmf_status, [POINTER(dpmf_workload), POINTER(c_double), POINTER(c_double)]),
    "dpmf_workload_solve": (dpmf_status, [POINTER(dpmf_workload), POINTER(c_double), POINTER(c_double)]),
    "dpmf_workload_inverse_row": (dpmf_status, [POINTER(dpmf_workload), c_int64, POINTER(c_double), POINTER(c_double)]),
    "dpmf_participation_parse": (dpmf_status, [c_char_p, c_int64, POINTER(POINTER(dpmf_participation))]),
    "dpmf_participation_free": (None, [POINTER(dpmf_participation)]),
    "dpmf_participation_get": (dpmf_participation_info, [POINTER(dpmf_participation)]),
    "dpmf_participation_create": (dpmf_status, [c_int, c_int64, c_int64, c_int64, POINTER(POINTER(dpmf_participation))]),
    "dpmf_participation_form": (c_char_p, [c_int]),
    "dpmf_strategy_options_defaults": (dpmf_strategy_options, []),
    "dpmf_family_info": (POINTER(dpmf_family), [c_int64]),
    "dpmf_strategy_create": (dpmf_status, [c_char_p, POINTER(dpmf_workload), POINTER(dpmf_strategy_options), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_free": (None, [POINTER(dpmf_strategy)]),
    "dpmf_strategy_get": (dpmf_strategy_info, [POINTER(dpmf_strategy)]),
    "dpmf_strategy_create_toeplitz": (dpmf_status, [c_int64, c_int, c_int64, POINTER(c_double), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_blt": (dpmf_status, [c_int64, c_int, POINTER(c_double), POINTER(c_double), POINTER(c_double), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_banded": (dpmf_status, [c_int64, c_int64, POINTER(c_double), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_dense": (dpmf_status, [c_int64, POINTER(c_double), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_lowrank": (dpmf_status, [c_int64, c_int64, c_int64, POINTER(c_double), POINTER(c_double), POINTER(c_double), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_normalized": (dpmf_status, [POINTER(dpmf_strategy), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_stamped": (dpmf_status, [POINTER(dpmf_strategy), c_int64, POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_create_triangular": (dpmf_status, [POINTER(dpmf_strategy), POINTER(POINTER(dpmf_strategy))]),
    "dpmf_strategy_apply": (dpmf_status, [POINTER(dpmf_strategy), POINTER(c_double), POINTER(c_double)]),
    "dpmf_strategy_solve": (dpmf_status, [POINTER(dpmf_strategy), POINTER(c_double), POINTER(c_double)]),
    "dpmf_strategy_column": (dpmf_status, [POINTER(dpmf_strategy), c_int64, POINTER(c_double)]),
    "dpmf_strategy_column_norms": (dpmf_status, [POINTER(dpmf_strategy), POINTER(c_double)]),
    "dpmf_strategy_seeds": (c_int64, [POINTER(dpmf_strategy), c_int64]),
    "dpmf_strategy_step": (dpmf_status, [POINTER(dpmf_strategy), c_int64, c_int64, POINTER(c_double), POINTER(c_double), POINTER(c_double)]),
    "dpmf_certainty_name": (c_char_p, [c_int]),
    "dpmf_adjacency_name": (c_char_p, [c_int]),
    "dpmf_adjacency_parse": (dpmf_status, [c_char_p, POINTER(c_int)]),
    "dpmf_sensitivity_bound_name": (c_char_p, [c_int]),
    "dpmf_sensitivity_bound_parse": (dpmf_status, [c_char_p, POINTER(c_int)]),
    "dpmf_evaluate_options_defaults": (dpmf_evaluate_options, []),
    "dpmf_evaluate": (dpmf_status, [POINTER(dpmf_workload), POINTER(dpmf_participation), POINTER(dpmf_strategy), POINTER(dpmf_evaluate_options), POINTER(dpmf_evaluation), POINTER(c_double)]),
    "dpmf_sensitivity_compute": (dpmf_status, [POINTER(dpmf_strategy), POINTER(dpmf_participation), POINTER(dpmf_evaluate_options), POINTER(dpmf_sensitivity)]),
    "dpmf_sensitivity_observed": (dpmf_status, [POINTER(dpmf_strategy), c_int64, POINTER(c_int64), POINTER(c_int64), POINTER(dpmf_evaluate_options), POINTER(dpmf_sensitivity), POINTER(c_int64)]),
    "dpmf_error_compute": (dpmf_status, [POINTER(dpmf_workload), POINTER(dpmf_strategy), POINTER(dpmf_run), POINTER(c_double)]),
    "dpmf_error_range": (dpmf_status, [POINTER(dpmf_workload), POINTER(dpmf_strategy), c_int64, c_int64, POINTER(dpmf_run), POINTER(c_double)]),
    "dpmf_query_deviation": (dpmf_status, [POINTER(dpmf_strategy), c_int64, POINTER(c_double), POINTER(dpmf_run), POINTER(c_double)]),
    "dpmf_query_multiplier": (dpmf_status, [c_double, c_int64, POINTER(c_double)]),
    "dpmf_query_monotone": (dpmf_status, [c_int64, POINTER(c_double), POINTER(c_double), c_double, POINTER(c_double)]),
    "dpmf_query_monotone_bands": (None, [c_int64, POINTER(c_double), POINTER(c_double)]),
    "dpmf_outcome_name": (c_char_p, [c_int]),
    "dpmf_optimize_options_defaults": (dpmf_optimize_options, []),
    "dpmf_optimize": (dpmf_status, [c_char_p, POINTER(dpmf_workload), POINTER(dpmf_participation), POINTER(dpmf_optimize_options), POINTER(POINTER(dpmf_strategy)), POINTER(dpmf_optimization)]),
    "dpmf_sampling_parse": (dpmf_status, [c_char_p, POINTER(dpmf_sampling)]),
    "dpmf_account_options_defaults": (dpmf_account_options, []),
    "dpmf_account_epsilon": (dpmf_status, [c_double, c_double, POINTER(dpmf_account_options), POINTER(dpmf_privacy)]),
    "dpmf_account_delta": (dpmf_status, [c_double, c_double, POINTER(dpmf_account_options), POINTER(dpmf_privacy)]),
    "dpmf_calibrate_sigma": (dpmf_status, [c_double, c_double, POINTER(dpmf_account_options), POINTER(dpmf_privacy)]),
    "dpmf_privacy_statement": (c_size_t, [POINTER(dpmf_privacy), POINTER(dpmf_account_options), c_char_p, c_size_t]),
    "dpmf_sampling_format": (dpmf_status, [POINTER(dpmf_sampling), c_char_p]),
    "dpmf_sampling_is_none": (c_int, [POINTER(dpmf_sampling)]),
    "dpmf_sampling_describe": (POINTER(dpmf_sampling_facts), [c_int]),
    "dpmf_engine_parse": (dpmf_status, [c_char_p, POINTER(c_int)]),
    "dpmf_ledger_create": (dpmf_status, [c_int, POINTER(POINTER(dpmf_ledger))]),
    "dpmf_ledger_free": (None, [POINTER(dpmf_ledger)]),
    "dpmf_ledger_add_gaussian": (dpmf_status, [POINTER(dpmf_ledger), c_double, c_int64]),
    "dpmf_ledger_add_sampled": (dpmf_status, [POINTER(dpmf_ledger), c_double, POINTER(dpmf_account_options), c_int64]),
    "dpmf_ledger_add_guarantee": (dpmf_status, [POINTER(dpmf_ledger), c_char_p, c_int64]),
    "dpmf_ledger_export": (dpmf_status, [POINTER(dpmf_ledger), c_char_p, c_double, POINTER(dpmf_run)]),
    "dpmf_ledger_epsilon": (dpmf_status, [POINTER(dpmf_ledger), c_double, POINTER(dpmf_run), POINTER(dpmf_privacy)]),
    "dpmf_ledger_delta": (dpmf_status, [POINTER(dpmf_ledger), c_double, POINTER(dpmf_run), POINTER(dpmf_privacy)]),
    "dpmf_risk_options_defaults": (dpmf_risk_options, []),
    "dpmf_account_risk": (dpmf_status, [c_double, POINTER(dpmf_account_options), POINTER(dpmf_risk_options), POINTER(c_double), POINTER(dpmf_risk)]),
    "dpmf_calibrate_risk": (dpmf_status, [c_double, c_double, POINTER(dpmf_account_options), POINTER(dpmf_privacy)]),
    "dpmf_risk_statement": (c_size_t, [POINTER(dpmf_risk), POINTER(dpmf_risk_options), POINTER(c_double), c_char_p, c_char_p, c_size_t]),
    "dpmf_calibrate_compositions": (dpmf_status, [c_double, c_double, c_double, POINTER(dpmf_account_options), POINTER(c_int64), POINTER(dpmf_privacy)]),
    "dpmf_calibrate_probability": (dpmf_status, [c_double, c_double, c_double, POINTER(dpmf_account_options), POINTER(c_double), POINTER(dpmf_privacy)]),
    "dpmf_tuning_parse": (dpmf_status, [c_char_p, POINTER(dpmf_tuning)]),
    "dpmf_tuning_runs": (c_double, [POINTER(dpmf_tuning)]),
    "dpmf_account_tuning": (dpmf_status, [c_double, c_double, POINTER(dpmf_account_options), POINTER(dpmf_tuning), POINTER(dpmf_privacy)]),
    "dpmf_account_zcdp": (dpmf_status, [c_double, c_double, c_int, c_int64, POINTER(dpmf_privacy)]),
    "dpmf_mechanism_free": (None, [POINTER(dpmf_mechanism)]),
    "dpmf_mechanism_save": (dpmf_status, [POINTER(dpmf_mechanism), c_char_p]),
    "dpmf_mechanism_load": (dpmf_status, [c_char_p, POINTER(POINTER(dpmf_mechanism))]),
    "dpmf_mechanism_calibrate": (dpmf_status, [POINTER(dpmf_mechanism), c_double, c_double, POINTER(dpmf_sampling), c_char_p, POINTER(dpmf_run), POINTER(POINTER(dpmf_mechanism)), POINTER(dpmf_privacy)]),
    "dpmf_mechanism_get": (dpmf_mechanism_info, [POINTER(dpmf_mechanism)]),
    "dpmf_mechanism_options_defaults": (dpmf_mechanism_options, []),
    "dpmf_mechanism_create": (dpmf_status, [POINTER(dpmf_workload), POINTER(dpmf_participation), POINTER(dpmf_strategy), POINTER(dpmf_mechanism_options), POINTER(POINTER(dpmf_mechanism))]),
    "dpmf_ledger_add_mechanism": (dpmf_status, [POINTER(dpmf_ledger), POINTER(dpmf_mechanism), c_int64]),
    "dpmf_mechanism_account_options": (dpmf_account_options, [POINTER(dpmf_mechanism)]),
    "dpmf_mechanism_account_first": (dpmf_status, [POINTER(dpmf_mechanism), c_int64, POINTER(dpmf_run), POINTER(c_double), POINTER(dpmf_account_options)]),
    "dpmf_mechanism_confirm": (dpmf_status, [POINTER(dpmf_mechanism), POINTER(dpmf_run), POINTER(dpmf_privacy)]),
    "dpmf_mechanism_encode": (dpmf_status, [POINTER(dpmf_mechanism), POINTER(POINTER(c_uint8)), POINTER(c_size_t)]),
    "dpmf_mechanism_decode": (dpmf_status, [POINTER(c_uint8), c_size_t, POINTER(POINTER(dpmf_mechanism))]),
    "dpmf_ledger_options_defaults": (dpmf_ledger_options, []),
    "dpmf_ledger_enter": (dpmf_status, [c_char_p, POINTER(dpmf_mechanism), POINTER(c_uint8), POINTER(dpmf_ledger_options), POINTER(dpmf_ledger_receipt)]),
    "dpmf_key_create": (dpmf_status, [POINTER(c_uint8)]),
    "dpmf_key_load": (dpmf_status, [c_char_p, c_int, POINTER(c_uint8)]),
    "dpmf_key_wipe": (None, [POINTER(c_uint8)]),
    "dpmf_noise_options_defaults": (dpmf_noise_options, []),
    "dpmf_noise_create": (dpmf_status, [POINTER(dpmf_mechanism), c_int64, c_double, POINTER(c_uint8), POINTER(dpmf_noise_options), POINTER(POINTER(dpmf_noise))]),
    "dpmf_noise_free": (None, [POINTER(dpmf_noise)]),
    "dpmf_noise_next": (dpmf_status, [POINTER(dpmf_noise), c_void_p]),
    "dpmf_noise_add": (dpmf_status, [POINTER(dpmf_noise), c_double, c_int64, POINTER(dpmf_segment)]),
    "dpmf_noise_get": (dpmf_noise_info, [POINTER(dpmf_noise)]),
    "dpmf_noise_bind_sum": (dpmf_status, [POINTER(dpmf_noise), POINTER(c_uint8)]),
    "dpmf_noise_seek": (dpmf_status, [POINTER(dpmf_noise), c_int64]),
    "dpmf_ledger_enter_account": (dpmf_status, [c_char_p, c_char_p, c_double, POINTER(dpmf_account_options), POINTER(dpmf_ledger_options), POINTER(dpmf_ledger_receipt)]),
    "dpmf_ledger_load": (dpmf_status, [c_char_p, POINTER(POINTER(dpmf_ledger))]),
    "dpmf_ledger_get": (dpmf_ledger_info, [POINTER(dpmf_ledger)]),
    "dpmf_ledger_add_ledger": (dpmf_status, [POINTER(dpmf_ledger), POINTER(dpmf_ledger)]),
    "dpmf_exact_plan": (dpmf_status, [POINTER(dpmf_mechanism), c_int64, c_double, c_double, POINTER(dpmf_run), POINTER(dpmf_exact)]),
    "dpmf_exact_statement": (c_size_t, [POINTER(dpmf_exact), c_char_p, c_char_p, c_size_t]),
    "dpmf_noise_add_whole": (dpmf_status, [POINTER(dpmf_noise), c_int64, POINTER(dpmf_segment)]),
    "dpmf_noise_memory": (dpmf_status, [POINTER(dpmf_mechanism), c_int64, POINTER(dpmf_noise_options), POINTER(c_uint64), POINTER(c_uint64)]),
    "dpmf_noise_save": (dpmf_status, [POINTER(dpmf_noise), c_char_p]),
    "dpmf_noise_load": (dpmf_status, [POINTER(dpmf_noise), c_char_p]),
    "dpmf_noise_encode": (dpmf_status, [POINTER(dpmf_noise), POINTER(POINTER(c_uint8)), POINTER(c_size_t)]),
    "dpmf_noise_decode": (dpmf_status, [POINTER(dpmf_noise), c_int64, POINTER(c_uint8), c_size_t]),
    "dpmf_noise_load_parts": (dpmf_status, [POINTER(dpmf_noise), c_int64, POINTER(c_char_p)]),
    "dpmf_key_testing": (dpmf_status, [c_uint64, POINTER(c_uint8)]),
    "dpmf_counter_options_defaults": (dpmf_counter_options, []),
    "dpmf_counter_create": (dpmf_status, [POINTER(dpmf_mechanism), c_int64, c_double, POINTER(c_uint8), POINTER(dpmf_counter_options), POINTER(POINTER(dpmf_counter))]),
    "dpmf_counter_free": (None, [POINTER(dpmf_counter)]),
    "dpmf_counter_add": (dpmf_status, [POINTER(dpmf_counter), c_int64, POINTER(c_double), POINTER(c_double)]),
    "dpmf_counter_get": (dpmf_counter_info, [POINTER(dpmf_counter)]),
    "dpmf_counter_error": (c_double, [POINTER(dpmf_counter), c_int64]),
    "dpmf_counter_last": (dpmf_status, [POINTER(dpmf_counter), POINTER(c_double)]),
    "dpmf_counter_prepare": (dpmf_status, [POINTER(dpmf_counter), c_int64, POINTER(dpmf_int128), POINTER(dpmf_int128)]),
    "dpmf_counter_commit": (dpmf_status, [POINTER(dpmf_counter), c_void_p, c_int64]),
    "dpmf_counter_note": (c_void_p, [POINTER(dpmf_counter), POINTER(c_int64)]),
    "dpmf_counter_input": (dpmf_status, [POINTER(dpmf_counter), c_int, c_void_p, c_int64]),
    "dpmf_design_options_defaults": (dpmf_design_options, []),
    "dpmf_design_create": (dpmf_status, [POINTER(dpmf_workload), POINTER(dpmf_design_options), POINTER(POINTER(dpmf_design))]),
    "dpmf_design_free": (None, [POINTER(dpmf_design)]),
    "dpmf_design_get": (dpmf_design_info, [POINTER(dpmf_design)]),
    "dpmf_design_statement": (c_size_t, [POINTER(dpmf_design), c_char_p, c_size_t]),
    "dpmf_design_warning": (c_char_p, [POINTER(dpmf_design), c_int64]),
    "dpmf_design_candidate": (POINTER(dpmf_candidate), [POINTER(dpmf_design), c_int64]),
    "dpmf_plan_options_defaults": (dpmf_plan_options, []),
    "dpmf_plan_create": (dpmf_status, [POINTER(dpmf_plan_options), POINTER(POINTER(dpmf_plan))]),
    "dpmf_plan_free": (None, [POINTER(dpmf_plan)]),
    "dpmf_plan_get": (dpmf_plan_info, [POINTER(dpmf_plan)]),
    "dpmf_verify": (dpmf_status, [POINTER(dpmf_verify_source), POINTER(dpmf_run), POINTER(POINTER(dpmf_verification))]),
    "dpmf_verification_free": (None, [POINTER(dpmf_verification)]),
    "dpmf_verification_get": (dpmf_verification_info, [POINTER(dpmf_verification)]),
    "dpmf_verification_check": (POINTER(dpmf_check), [POINTER(dpmf_verification), c_int64]),
    "dpmf_sampler_create": (dpmf_status, [c_char_p, c_int64, c_int64, POINTER(c_uint8), c_char_p, POINTER(POINTER(dpmf_sampler))]),
    "dpmf_sampler_free": (None, [POINTER(dpmf_sampler)]),
    "dpmf_sampler_get": (dpmf_sampler_info, [POINTER(dpmf_sampler)]),
    "dpmf_sampler_next": (dpmf_status, [POINTER(dpmf_sampler), POINTER(c_int64), POINTER(c_int64)]),
    "dpmf_sampler_check": (dpmf_status, [POINTER(dpmf_sampler), POINTER(dpmf_mechanism)]),
    "dpmf_sampler_seek": (dpmf_status, [POINTER(dpmf_sampler), c_int64]),
    "dpmf_sampler_identify": (dpmf_sampler_identity, [POINTER(dpmf_sampler)]),
    "dpmf_sampler_offer": (dpmf_status, [POINTER(dpmf_sampler), c_int64, POINTER(c_int64), POINTER(c_int64), POINTER(c_int64)]),
    "dpmf_sampler_encode": (dpmf_status, [POINTER(dpmf_sampler), POINTER(POINTER(c_uint8)), POINTER(c_size_t)]),
    "dpmf_sampler_decode": (dpmf_status, [POINTER(dpmf_sampler), POINTER(c_uint8), c_size_t]),
    "dpmf_clip_grid": (dpmf_status, [c_double, c_int64, POINTER(c_double)]),
    "dpmf_clip_add": (dpmf_status, [c_double, c_double, c_double, c_int, c_int64, c_int64, POINTER(dpmf_segment), POINTER(c_int64), POINTER(dpmf_run)]),
    "dpmf_array_load": (dpmf_status, [c_char_p, POINTER(dpmf_array)]),
    "dpmf_array_save": (dpmf_status, [c_char_p, POINTER(dpmf_array)]),
    "dpmf_array_free": (None, [POINTER(dpmf_array)]),
    "dpmf_array_decode": (dpmf_status, [POINTER(c_uint8), c_size_t, POINTER(dpmf_array)]),
    "dpmf_audit_options_defaults": (dpmf_audit_options, []),
    "dpmf_audit_create": (dpmf_status, [POINTER(dpmf_mechanism), POINTER(dpmf_audit_options), POINTER(POINTER(dpmf_audit))]),
    "dpmf_audit_free": (None, [POINTER(dpmf_audit)]),
    "dpmf_audit_get": (dpmf_audit_info, [POINTER(dpmf_audit)]),
}
