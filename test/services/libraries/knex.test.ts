import createKnex from 'knex'
import { type Library, libraryStories } from './stage.ts'

async function connect(client: 'pg' | 'mysql2', url: string): Promise<Library> {
  const knex = createKnex({ client, connection: url, pool: { min: 0, max: 2 } })
  return {
    transaction: (work) => knex.transaction((trx) => work(trx, (note) => trx('paid').insert({ note }))),
    nested: (work) => knex.transaction((trx) => work(trx, (inner) => trx.transaction(inner))),
    alone: (note) => knex('paid').insert({ note }),
    outside: [knex],
    [Symbol.asyncDispose]: () => knex.destroy(),
  }
}

libraryStories('Knex', 'postgres', (url) => connect('pg', url))
libraryStories('Knex', 'mariadb', (url) => connect('mysql2', url))
