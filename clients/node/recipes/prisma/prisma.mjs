// Prisma over SQLite with ids from Mintleaf: an extension gives each row its id before it is inserted, and eight writers
// insert 10,000 rows. Rows that are created inside another's `create` do not pass it: give them their `id` yourself.
//
//   npx prisma generate
//   MINTLEAF=http://localhost:8080 node prisma.mjs
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { PrismaLibSql } from "@prisma/adapter-libsql";
import { PrismaClient } from "@prisma/client";
import { Client } from "mintleaf";

const client = new Client({ endpoints: (process.env.MINTLEAF ?? "http://localhost:8080").split(",") });
const tags = { Order: "orders" }; // the tag of each model

/** A row that has an id keeps it. */
async function identify(model, data) {
  const rows = [data].flat().filter(({ id }) => id === undefined);
  const ids = rows.length > 0 && tags[model] ? await client.nextIds(tags[model], rows.length) : [];
  ids.forEach((id, at) => Object.assign(rows[at], { id }));
}

const ids = {
  async create({ model, args, query }) {
    await identify(model, args.data);
    return query(args);
  },
  async upsert({ model, args, query }) {
    await identify(model, args.create);
    return query(args);
  },
};
ids.createMany = ids.createManyAndReturn = ids.create;
const url = `file:${mkdtempSync(`${tmpdir()}/shop-`)}/shop.db`;
const database = new PrismaClient({ adapter: new PrismaLibSql({ url }) });
const shop = database.$extends({ query: { $allModels: ids } });
await shop.$executeRaw`CREATE TABLE orders (id BIGINT PRIMARY KEY, item TEXT NOT NULL)`; // or by `prisma migrate`

async function writer(number) {
  for (let batch = 0; batch < 5; batch++) {
    await shop.order.createMany({ data: Array.from({ length: 250 }, () => ({ item: `of writer ${number}` })) });
  }
}
await Promise.all(Array.from({ length: 8 }, (_, number) => writer(number)));
const rows = await shop.order.findMany();
const distinct = new Set(rows.map(({ id }) => id));
console.log(`${rows.length} rows, ${distinct.size} distinct ids, ${client.stats().requests} requests`);
await database.$disconnect();
await client.close();
