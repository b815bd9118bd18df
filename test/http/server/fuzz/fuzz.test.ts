import assert from 'node:assert/strict'
import { test } from 'vitest'
import { serving } from '../stage.ts'
import { fuzzServer } from './campaign.ts'

test('each of fifty thousand malformed requests is answered, and the server keeps running', {
  timeout: 240_000,
}, async () => {
  // Every connection comes from one address, and wrong tokens among the requests are no attack here.
  await using stage = await serving(
    { maxFailuresPerAddress: 1_000_000 },
    (folder) => `sqlite:${folder}/fuzz.db`,
  )
  const port = Number(new URL(stage.url).port)
  const seed = Number(process.env.FUZZ_SEED ?? 1)
  const counts = await fuzzServer(port, { seed, requests: 50_000 })
  console.log(`fuzz: seed ${seed}, ${JSON.stringify(counts)}`)
  assert.equal(counts.requests, 50_000)
  assert.ok(counts.refused > 25_000 && counts.taken > 1_000, 'both kinds were among them')
  // Ten times what is promised to a neighbour.
  assert.ok(counts.neighbourP99Ms < 500, `the neighbour waited ${counts.neighbourP99Ms} ms`)
  assert.equal((await stage.ask('GET', '/readyz')).status, 200)
})
