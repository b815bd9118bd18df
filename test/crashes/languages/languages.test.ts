import { test } from 'vitest'
import { afterwardsMs, workInLanguages } from './languages.ts'

const workMs = 90_000

test('workers in Python, shell and TypeScript complete every job once, though the server is killed with -9', {
  timeout: workMs + afterwardsMs,
}, async () => {
  const counts = await workInLanguages({ seed: 1, jobs: 60, kills: 2, workMs })
  const counted = Object.entries(counts).map(([what, count]) => `${count} ${what}`)
  console.log(`[crashes] languages: ${counted.join(', ')}`)
})
