import type { ReactNode } from 'react'
import { Loaded } from '../../kit/loaded.tsx'
import { Section } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Badge } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time } from '../../kit/text/time.tsx'
import { useLive } from '../../live/queries.ts'
import { usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { jobWords } from '../../words/job.ts'
import { useWords } from '../../words/language.tsx'

const tones = { debug: 'calm', info: 'info', warn: 'warn', error: 'bad' } as const
const icons = { debug: 'info', info: 'info', warn: 'warning', error: 'dead' } as const

/** What handlers wrote about a job, by attempt. */
export function Logs({ id }: { readonly id: string }): ReactNode {
  const say = useWords(jobWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const logs = useLive(['job', id, 'logs', cursor], () =>
    client.jobs.logs(id, { limit: 100, ...(cursor ? { cursor } : {}) }),
  )
  return (
    <Section title={say('logs')}>
      <Loaded query={logs}>
        {({ items, cursor: next }) => (
          <>
            <Table
              label={say('logs')}
              keys={false}
              rows={items}
              rowKey={({ attempt, number }) => `${attempt}.${number}`}
              columns={[
                { key: 'when', head: say('when'), cell: ({ at }) => <Time at={at} /> },
                {
                  ...{ key: 'attempt', head: say('attempt'), align: 'end', wideOnly: true },
                  cell: ({ attempt }) => attempt,
                },
                {
                  ...{ key: 'level', head: say('level') },
                  cell: ({ level }) => (
                    <Badge tone={tones[level]} icon={icons[level]}>
                      {level}
                    </Badge>
                  ),
                },
                {
                  ...{ key: 'line', head: say('line'), grow: true, wrap: true },
                  cell: ({ text }) => <Text value={text} mono />,
                },
              ]}
              empty={
                <p className="aside">
                  {say('noLines')} {say('noLinesNext')}
                </p>
              }
            />
            <Pager next={next} />
          </>
        )}
      </Loaded>
    </Section>
  )
}
