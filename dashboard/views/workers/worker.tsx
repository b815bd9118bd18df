import type { ReactNode } from 'react'
import type { WireFoundWorker, WireWorker } from '../../../src/http/client/index.ts'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Json } from '../../kit/text/json.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Span, Time, useNow } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useLive } from '../../live/queries.ts'
import { serverNow } from '../../live/server-clock.ts'
import { onPageClock } from '../../live/workers.ts'
import { go, Link } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { workersWords } from '../../words/workers.ts'
import { WorkerActs } from './acts.tsx'
import { Busy, Place, WorkerState } from './parts.tsx'

type RunningJob = WireWorker['running'][number]

/** One worker: where it is, what it runs and knows, and what can be asked of it. */
export function OneWorker({ id }: { readonly id: string }): ReactNode {
  const say = useWords(workersWords)
  const client = useClient()
  // The query cache cannot hold `undefined`.
  const ask = async () => {
    const worker = await client.jobs.findWorker(id)
    return worker === undefined ? null : onPageClock(worker, worker.at, serverNow())
  }
  const worker = useLive(['workers', 'one', id], ask, { everyMs: 2_000 })
  // After a change of address, cached data may belong to another worker.
  const found = worker.data?.id === id ? worker.data : null
  return (
    <Page
      title={visible(id)}
      lead={<Link to="workers">{say('allWorkers')}</Link>}
      actions={found && <WorkerActs worker={found} />}
    >
      <Loaded query={worker}>
        {() =>
          found === null ? (
            <Empty icon="workers" title={say('missing')}>
              <p>{say('missingNext')}</p>
            </Empty>
          ) : (
            <Whole worker={found} />
          )
        }
      </Loaded>
    </Page>
  )
}

function Whole({ worker }: { readonly worker: WireFoundWorker }): ReactNode {
  const say = useWords(workersWords)
  const { release, version, queues, kinds, schemas, startedAt, seenAt, leaseEndsAt, state } = worker
  const schemaNames = Object.keys(schemas)
  return (
    <>
      <div className="card">
        <Facts
          items={[
            [say('state'), <WorkerState key="state" worker={worker} />],
            [say('busy'), <Busy key="busy" worker={worker} />],
            [say('host'), <Place key="host" worker={worker} />],
            [say('via'), say(`via_${worker.via}`)],
            release === null ? undefined : [say('release'), <Text key="release" value={release} />],
            version === null ? undefined : [say('version'), <Text key="version" value={version} />],
            [say('started'), <Time key="started" at={startedAt} />],
            [say('seen'), <Time key="seen" at={seenAt} />],
            [say(state === 'gone' ? 'leaseEnded' : 'leaseEnds'), <Time key="lease" at={leaseEndsAt} />],
            worker.workerId === worker.id
              ? undefined
              : [say('workerId'), <Text key="workerId" value={worker.workerId} />],
            [
              say('queues'),
              queues.map((name) => (
                <span key={name} className="workers-link">
                  <Link to="queue" query={{ name }}>
                    <Text value={name} />
                  </Link>
                </span>
              )),
            ],
            [say('kinds'), kinds === null ? say('everyKind') : <Text key="kinds" value={kinds.join(', ')} />],
          ]}
        />
      </div>
      <Running worker={worker} />
      {schemaNames.length > 0 && (
        <Section title={say('schemas')}>
          {schemaNames.map((kind) => (
            <details key={kind} className="workers-schema">
              <summary>
                <Text value={kind} />
              </summary>
              <Json value={schemas[kind]} label={say('schemaOf', { kind: visible(kind) })} />
            </details>
          ))}
        </Section>
      )}
    </>
  )
}

function Running({ worker: { running, runningCount } }: { readonly worker: WireWorker }): ReactNode {
  const say = useWords(workersWords)
  const format = useFormat()
  const now = useNow()
  const columns: readonly Column<RunningJob>[] = [
    {
      ...{ key: 'kind', head: say('kind'), grow: true },
      cell: ({ id, kind }) => (
        <Link to="job" query={{ id }}>
          <Text value={kind} cut />
        </Link>
      ),
    },
    {
      ...{ key: 'id', head: say('job'), wideOnly: true, whole: true },
      cell: ({ id }) => <Text value={id} mono />,
    },
    {
      ...{ key: 'since', head: say('runsFor'), align: 'end' },
      cell: ({ since }) => <Span ms={Math.max(0, Math.round((now - since) / 1_000)) * 1_000} />,
    },
  ]
  const hiddenCount = (runningCount ?? running.length) - running.length
  return (
    <Section title={say('now')}>
      <Table
        label={say('now')}
        rows={running}
        columns={columns}
        rowKey={({ id }) => id}
        onOpen={({ id }) => go('job', { id })}
        empty={<p className="aside">{say('idle')}</p>}
      />
      {hiddenCount > 0 && <p className="aside">{say('more', { count: format.number(hiddenCount) })}</p>}
    </Section>
  )
}
