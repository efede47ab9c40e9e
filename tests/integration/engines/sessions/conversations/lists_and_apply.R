people <- list(ann = list(age = 30, langs = c("R", "C")), bob = list(age = 25, langs = character(0)))
sapply(people, function(p) p$age)
# %%
print(people$ann)
# %%
m <- matrix(1:6, nrow = 2, dimnames = list(c("r1", "r2"), NULL))
print(m)
t(m) %*% m
# %%
m %*% m
# %%
Map(function(a, b) a + b, 1:2, 3:4)[[2]]
# %%
seq(1, 60)
# %%
do.call(rbind, lapply(1:3, function(i) c(i, i^2)))
