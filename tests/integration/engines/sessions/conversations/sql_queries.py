import sqlite3
con = sqlite3.connect("shop.db")
con.executescript("""
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers(id), total REAL);
INSERT INTO customers VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Çelik', 'İzmir');
INSERT INTO orders (customer, total) VALUES (1, 10.5), (1, 20), (2, 7.25);
""")
con.commit()
con.execute("SELECT * FROM customers").fetchall()
# %%
query = """
SELECT c.name, COUNT(o.id) AS orders, COALESCE(SUM(o.total), 0) AS total
FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id ORDER BY total DESC
"""
for row in con.execute(query):
    print(row)
# %%
import pandas as pd
pd.read_sql_query(query, con)
# %%
con.execute("SELECT nope FROM orders")
# %%
con.execute("INSERT INTO customers VALUES (1, 'Dup', 'X')")
# %%
con.row_factory = sqlite3.Row
[dict(row) for row in con.execute("SELECT * FROM orders")]
# %%
con.close()
con.execute("SELECT 1")
