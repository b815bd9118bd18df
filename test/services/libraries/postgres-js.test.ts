import postgres from 'postgres'
import { libraryStories } from './stage.ts'

// Settings that change the rows a program sees: names in camel case, and large numbers as bigint.
const settings = { transform: postgres.camel, types: { bigint: postgres.BigInt } }

for (const [title, options] of [
  ['postgres.js', {}],
  ['postgres.js with its own names and types', settings],
] as const) {
  libraryStories(title, 'postgres', async (url) => {
    const sql = postgres(url, { max: 2, ...options })
    const reserved = await sql.reserve()
    return {
      transaction: (work) => sql.begin((sql) => work(sql, (note) => sql`INSERT INTO paid ${sql({ note })}`)),
      nested: (work) => sql.begin((sql) => work(sql, (inner) => sql.savepoint(inner))),
      alone: (note) => sql`INSERT INTO paid ${sql({ note })}`,
      outside: [sql, reserved],
      async [Symbol.asyncDispose]() {
        reserved.release()
        await sql.end()
      },
    }
  })
}

libraryStories('postgres.js with a reserved connection', 'postgres', async (url) => {
  const sql = postgres(url, { max: 2 })
  return {
    async transaction(work) {
      const reserved = await sql.reserve()
      try {
        await reserved`BEGIN`
        const result = await work(reserved, (note) => reserved`INSERT INTO paid ${sql({ note })}`)
        await reserved`COMMIT`
        return result
      } catch (error) {
        await reserved`ROLLBACK`
        throw error
      } finally {
        reserved.release()
      }
    },
    alone: (note) => sql`INSERT INTO paid ${sql({ note })}`,
    outside: [sql],
    [Symbol.asyncDispose]: () => sql.end(),
  }
})
