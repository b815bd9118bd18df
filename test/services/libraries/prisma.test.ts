/**
 * Prisma by its shape. Its client is 72 MB and a generator makes it, so it is not among the packages of this
 * repository. This fake has the interface of its interactive transactions (version 7 with a driver adapter) and answers
 * as Prisma was observed to: large integers as bigint, errors with the database's code inside, and none for a column of
 * the type void (prisma/prisma#3530).
 */
import assert from 'node:assert/strict'
import { Client, Pool } from 'pg'
import { open } from 'signalbox'
import { test } from 'vitest'
import { hasService, ownMariadb } from '../../support/services/own.ts'
import { libraryStories } from './stage.ts'

interface Runner {
  query(text: string, values: unknown[]): Promise<PrismaRows>
}

interface PrismaRows {
  readonly rows: readonly Record<string, unknown>[]
  readonly fields: readonly { readonly name: string; readonly dataTypeID: number }[]
}

const bigintType = 20
const voidType = 2278

function prismaOver(runner: Runner, isOver: () => boolean) {
  return {
    async $queryRawUnsafe(text: string, ...values: unknown[]) {
      if (isOver()) throw Object.assign(new Error('Transaction already closed'), { code: 'P2028', meta: {} })
      try {
        const { rows, fields } = await runner.query(text, values)
        if (fields.some(({ dataTypeID }) => dataTypeID === voidType))
          throw new Error("Failed to deserialize column of type 'void'.")
        const large = fields.filter(({ dataTypeID }) => dataTypeID === bigintType).map(({ name }) => name)
        return rows.map((row) => ({
          ...row,
          ...Object.fromEntries(
            large.map((name) => [name, row[name] === null ? null : BigInt(String(row[name]))]),
          ),
        }))
      } catch (error) {
        const originalCode = (error as { code?: string }).code
        const meta = { driverAdapterError: { cause: { originalCode, kind: 'postgres' } } }
        throw Object.assign(new Error('Raw query failed', { cause: error }), { code: 'P2010', meta })
      }
    },
  }
}

libraryStories('Prisma (by its shape)', 'postgres', async (url) => {
  const pool = new Pool({ connectionString: url, max: 2 })
  return {
    async transaction(work) {
      const client = await pool.connect()
      let isOver = false
      const tx = prismaOver(client, () => isOver)
      try {
        await client.query('BEGIN')
        const result = await work(tx, (note) => tx.$queryRawUnsafe('INSERT INTO paid VALUES ($1)', note))
        await client.query('COMMIT')
        return result
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        isOver = true
        client.release()
      }
    },
    alone: (note) => pool.query('INSERT INTO paid VALUES ($1)', [note]),
    outside: [prismaOver(pool, () => false)],
    [Symbol.asyncDispose]: () => pool.end(),
  }
})

test.skipIf(!hasService('mariadb'))('Prisma on MariaDB is refused, with the reason', async () => {
  await using own = await ownMariadb()
  await using box = await open(own.url, { migrate: true })
  const tx = prismaOver(new Client(), () => false)
  await assert.rejects(box.jobs.add('mail', {}, { tx }), {
    code: 'invalid_argument',
    message: /Prisma, which cannot run the compound statement/,
  })
})
