import assert from 'node:assert/strict'
import { test } from 'vitest'
import { toCallerTx } from './caller-transaction.ts'

const verb = async () => []

test('a connection of another driver with the same methods is refused by its name', async () => {
  const connection = { query: verb, execute: verb, beginTransaction: verb }
  await assert.rejects(toCallerTx({ ...connection, batch: verb, importFile: verb }), {
    code: 'invalid_argument',
    message: /mysql2/,
  })
  await toCallerTx(connection)
})

test('a closed connection is in no transaction, and other errors of the driver are passed on', async () => {
  const saying = (message: string) => {
    const query = async () => Promise.reject(new Error(message))
    return toCallerTx({ query, execute: verb, beginTransaction: verb })
  }
  const ended = await saying("Can't add new command when connection is in closed state")
  await assert.rejects(ended.query('SELECT 1', []), { code: 'transaction_required' })
  const other = await saying('disk full')
  await assert.rejects(other.query('SELECT 1', []), /disk full/)
})
