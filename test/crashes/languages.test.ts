import { test } from 'vitest'
import { workInLanguages } from './languages.ts'

test('workers in Python, shell and TypeScript complete every job once, though the server is killed with -9', {
  timeout: 120_000,
}, async () => {
  const counts = await workInLanguages({ seed: 1, jobs: 150, kills: 3 })
  const counted = Object.entries(counts).map(([what, count]) => `${count} ${what}`)
  console.log(`[crashes] languages: ${counted.join(', ')}`)
})
