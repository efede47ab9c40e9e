fact <- function(n) if (n <= 1) 1 else n * fact(n - 1)
fact(10)
# %%
safe <- function(x) tryCatch(stop("bad input"), error = function(e) conditionMessage(e), finally = cat("cleanup\n"))
safe(1)
# %%
check <- function(x) { if (x < 0) stop("negative: ", x); sqrt(x) }
check(-1)
# %%
check(16)
# %%
message("to standard error")
cat("no line end")
# %%
invisible(5)
# %%
undefined_thing + 1
# %%
fact
