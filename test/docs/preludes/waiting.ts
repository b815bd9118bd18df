import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { around, check, replace } from '../prelude.ts'

export * from '../box.ts'

let doneId = ''
replace('01k9z3v8qe0m4t9wq3rb5c7xkd', () => doneId)

around(async () => {
  const worker = box.jobs.worker({
    handlers: { thumbnail: ({ payload }) => `small ${payload.image}` },
    pollMs: 50,
  })
  await worker.start()
  doneId = (await box.jobs.add('thumbnail', { image: 'dog.png' })).id
  await box.jobs.wait(doneId)
  return () => worker.stop()
})

check('Waiting for a job', ({ values: { status, job } }) => {
  assert.deepEqual([status, job.state, job.result], ['ended', 'completed', 'small cat.png'])
})

check('Following a job or a queue', ({ output }) => {
  assert.match(output, /event: state\ndata: .*"state":"completed"/)
})

check('Over HTTP', ({ output }) => {
  assert.match(output, /"state":"completed"/)
})
