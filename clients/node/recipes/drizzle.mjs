// Drizzle over SQLite with ids from Mintleaf: eight writers insert 10,000 rows. Its defaults are synchronous, and ids are
// taken before the insert, a batch at a time. Columns are text, because this SQLite reads integers as numbers.
//
//   MINTLEAF=http://localhost:8080 node drizzle.mjs
import { drizzle } from "drizzle-orm/sql-js";
import { sqliteTable, text } from "drizzle-orm/sqlite-core";
import { count, countDistinct } from "drizzle-orm";
import { Client } from "mintleaf";
import sqlite from "sql.js";

const client = new Client({ endpoints: (process.env.MINTLEAF ?? "http://localhost:8080").split(",") });
const { Database } = await sqlite();
const database = new Database();
database.run("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)");
const db = drizzle(database);
const orders = sqliteTable("orders", { id: text().primaryKey(), item: text().notNull() });

async function writer(number) {
  for (let batch = 0; batch < 5; batch++) {
    const ids = await client.nextIds("orders", 250);
    await db.insert(orders).values(ids.map((id) => ({ id: String(id), item: `of writer ${number}` })));
  }
}
await Promise.all(Array.from({ length: 8 }, (_, number) => writer(number)));
const [rows] = await db.select({ all: count(), distinct: countDistinct(orders.id) }).from(orders);
console.log(`${rows.all} rows, ${rows.distinct} distinct ids, ${client.stats().requests} requests`);
await client.close();
