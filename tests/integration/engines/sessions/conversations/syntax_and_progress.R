x <- c(1, 2
# %%
for (i in 1:3) cat("\rstep", i)
cat("\n")
# %%
if (TRUE) {
  "inside"
}
# %%
1; 2; 3
# %%
x <- 5; (x <- x + 1)
# %%
NULL
# %%
c(a = 1.5, b = 2)
