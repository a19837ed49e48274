// TypeORM over SQLite with ids from Mintleaf: a subscriber gives each row its id before it is inserted, and eight writers
// insert 10,000 rows. Columns are text, because this SQLite reads integers as numbers.
//
//   MINTLEAF=http://localhost:8080 node typeorm.mjs
import { Client } from "mintleaf";
import typeorm from "typeorm";

const client = new Client({ endpoints: (process.env.MINTLEAF ?? "http://localhost:8080").split(",") });
const columns = { id: { type: "text", primary: true }, item: { type: "text" } };
const Order = new typeorm.EntitySchema({ name: "orders", columns });

/** Awaited for each row of an insert. A row that has an id keeps it. */
class Ids {
  async beforeInsert({ entity, metadata }) {
    entity.id ??= String(client.tryNextId(metadata.tableName) ?? (await client.nextId(metadata.tableName)));
  }
}
typeorm.EventSubscriber()(Ids); // in TypeScript, a decorator of the class

const database = new typeorm.DataSource({ type: "sqljs", entities: [Order], subscribers: [Ids], synchronize: true });
await database.initialize();
const orders = database.getRepository(Order);

async function writer(number) {
  for (let batch = 0; batch < 5; batch++) {
    await orders.insert(Array.from({ length: 250 }, () => ({ item: `of writer ${number}` })));
  }
}
await Promise.all(Array.from({ length: 8 }, (_, number) => writer(number)));
const rows = await orders.find();
const distinct = new Set(rows.map(({ id }) => BigInt(id)));
console.log(`${rows.length} rows, ${distinct.size} distinct ids, ${client.stats().requests} requests`);
await database.destroy();
await client.close();
