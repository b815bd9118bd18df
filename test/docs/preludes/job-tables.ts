import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { addresses } from '../addresses.ts'
import { bury } from '../dead-letter.ts'
import { around, check } from '../prelude.ts'

const stores = {
  'Job tables': 'sqlite:signalbox.db',
  'The newest dead letters': addresses.postgres!,
  'The newest dead letters #2': 'sqlite:signalbox.db',
  'The newest dead letters #3': addresses.mariadb!,
}

around(async ({ key }) => {
  await using box = await open(stores[key as keyof typeof stores])
  await bury(box)
})

for (const number of ['', ' #2', ' #3'])
  check(`The newest dead letters${number}`, ({ output }) => {
    const { queue, kind, attempt, reason, at } = JSON.parse(output.split('\n')[0]!)
    assert.deepEqual([queue, kind, attempt, reason], ['default', 'charge', 1, 'no funds'])
    assert.match(at, /^20\d\d-/)
  })
