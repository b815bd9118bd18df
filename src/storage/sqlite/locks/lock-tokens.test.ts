import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { Connection } from '../connection/connection.ts'
import { forgetTaken, mintToken } from './lock-tokens.ts'

const wall = 1_700_000_000_000

function openTokens(): Connection {
  const db = new DatabaseSync(':memory:')
  db.exec('CREATE TABLE lock_shard (shard INTEGER NOT NULL PRIMARY KEY, last_token INTEGER NOT NULL) STRICT')
  return new Connection(db)
}

test('tokens rise over transactions, several in one, and when the clock goes back', () => {
  const connection = openTokens()
  let last = 0
  for (const [now, many] of [
    [wall, 1],
    [wall, 300],
    [wall - 60_000, 2],
    [wall + 1_000, 3],
  ] as const) {
    connection.begin()
    for (let minted = 0; minted < many; minted++) {
      const token = mintToken(connection, 0, now)
      assert.ok(token > last, `${token} after ${last}`)
      assert.ok(token >= now * 1_000)
      last = token
    }
    connection.commit()
  }
  assert.equal(last, (wall + 1_000) * 1_000 + 2)
})

test('a token is above the wait queue’s last one, and above all tokens of an older file format', () => {
  const connection = openTokens()
  connection.run('INSERT INTO lock_shard VALUES (0, 5), (17, ?1)', (wall + 500) * 1_000)
  connection.begin()
  assert.equal(mintToken(connection, 0, wall), (wall + 500) * 1_000 + 1)
  assert.equal(mintToken(connection, (wall + 900) * 1_000, wall), (wall + 900) * 1_000 + 1)
  connection.commit()
  connection.begin()
  assert.ok(mintToken(connection, 0, wall) > (wall + 900) * 1_000 + 1)
  connection.commit()
})

test('a rollback, of a transaction or of one step, also undoes its tokens', () => {
  const connection = openTokens()
  connection.begin()
  mintToken(connection, 0, wall)
  connection.rollback()
  assert.deepEqual(connection.all('SELECT * FROM lock_shard'), [])

  connection.begin()
  connection.run('SAVEPOINT step')
  mintToken(connection, 0, wall)
  connection.run('ROLLBACK TO step')
  forgetTaken(connection)
  const kept = mintToken(connection, 0, wall)
  connection.commit()
  connection.begin()
  assert.ok(mintToken(connection, 0, wall) > kept)
  connection.commit()
})
