set.seed(1)
x <- 1:20
y <- 3 * x + rnorm(20)
model <- lm(y ~ x)
round(coef(model), 3)
# %%
print(summary(model)$r.squared)
# %%
anova(model)
# %%
predict(model, data.frame(z = 1))
# %%
round(predict(model, data.frame(x = c(21, 22)), interval = "confidence"), 2)
# %%
t.test(x, y)$p.value < 0.05
