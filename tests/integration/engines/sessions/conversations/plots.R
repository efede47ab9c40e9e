plot(1:10, (1:10)^2, main = "Squares", type = "b")
# %%
cat("before\n")
hist(c(1, 2, 2, 3, 3, 3), col = "grey")
cat("after\n")
# %%
barplot(c(a = 1, b = 3))
boxplot(c(1, 5, 9))
# %%
plot(1:3)
lines(3:1, col = "red")
stop("half drawn")
# %%
png("file.png", width = 200, height = 200)
pie(c(1, 2))
invisible(dev.off())
file.exists("file.png")
