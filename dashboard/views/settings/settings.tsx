import type { ReactNode } from 'react'
import type { WireOverview } from '../../../src/http/client/index.ts'
import { Icon } from '../../kit/icon.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Facts, Page, Section } from '../../kit/page.tsx'
import { Badge, State } from '../../kit/state.tsx'
import { Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { useOverview } from '../../live/overview.ts'
import { useMay, useSignedIn } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { settingsWords } from '../../words/settings.ts'
import { shellWords } from '../../words/shell.ts'
import { Secret } from './secret.tsx'
import { Tokens } from './tokens.tsx'
import './settings.css'

/** The server, its health, the weaknesses of its engine's settings, and the tokens. */
export default function SettingsView(): ReactNode {
  const say = useWords(settingsWords)
  const sayShell = useWords(shellWords)
  return (
    <Page title={sayShell('settings')} lead={say('lead')}>
      <About />
      <Weak />
      <Loaded query={useOverview()}>{({ readiness }) => <Health readiness={readiness} />}</Loaded>
      {useMay('admin') ? (
        <Tokens />
      ) : (
        <Section title={say('tokens')}>
          <p className="aside">{say('needsAdmin')}</p>
        </Section>
      )}
      <Secret />
    </Page>
  )
}

function About(): ReactNode {
  const say = useWords(settingsWords)
  const { me } = useSignedIn()
  return (
    <Section title={say('about')}>
      <div className="card">
        <Facts
          items={[
            [say('version'), <Text key="version" value={me.server.version} />],
            [say('engine'), <Text key="engine" value={me.server.engine} />],
            [say('namespace'), <Text key="namespace" value={me.namespace} />],
            [say('you'), <Text key="you" value={me.name ?? (me.id === 'local' ? say('local') : me.id)} />],
            [say('scope'), <code key="scope">{me.scope}</code>],
          ]}
        />
      </div>
    </Section>
  )
}

function Weak(): ReactNode {
  const say = useWords(settingsWords)
  const { me } = useSignedIn()
  const { warnings } = me.server
  return (
    <Section title={say('weak')}>
      {warnings.length === 0 ? (
        <Badge tone="good" icon="completed">
          {say('noWeak')}
        </Badge>
      ) : (
        <ul className="card settings-weak-list">
          {warnings.map((warning) => (
            <li key={warning}>
              <Icon name="warning" />
              <Text value={warning} />
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}

function Health({ readiness }: { readonly readiness: WireOverview['readiness'] }): ReactNode {
  const say = useWords(settingsWords)
  return (
    <Section title={say('health')}>
      <Table
        label={say('health')}
        keys={false}
        rows={readiness.checks}
        rowKey={({ name }) => name}
        columns={[
          {
            ...{ key: 'check', head: say('check'), whole: true },
            cell: ({ name }) => <Text value={name} mono />,
          },
          { key: 'state', head: say('state'), cell: ({ ok }) => <State name={ok ? 'ok' : 'failed'} /> },
          {
            ...{ key: 'detail', head: say('detail'), grow: true, wideOnly: true },
            cell: ({ detail }) => detail !== undefined && <Text value={detail} cut />,
          },
        ]}
        empty={null}
      />
    </Section>
  )
}
