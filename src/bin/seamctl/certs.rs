//! `seamctl certs`: who may join a mesh.

use std::path::PathBuf;

use clap::Subcommand;
use seam::model::NodeName;
use seam::net::certs::{CertsError, init_ca, issue};

use crate::exit::{Failure, print};

/// Certificates.
#[derive(Subcommand)]
pub(crate) enum Certs {
    /// Make the certificate authority of a cluster.
    Init {
        /// Where its files go.
        dir: PathBuf,
        /// The cluster, as `node.cluster` in the configuration.
        #[arg(long, default_value = "seam")]
        cluster: String,
    },
    /// Make the certificate of one agent.
    Issue {
        /// Where the certificate authority is.
        dir: PathBuf,
        /// The agent, as `node.name` in its configuration.
        name: NodeName,
        /// A further host name or IP address; may be repeated.
        #[arg(long, value_name = "HOST")]
        san: Vec<String>,
        /// Where the files go; beside the certificate authority if absent.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Certs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Init { dir, cluster } => {
                let made = init_ca(&dir, &cluster).map_err(failure)?;
                print(&format!(
                    "wrote {}\nwrote {} (keep it secret: it lets anyone in)\nNext: seamctl certs issue {} NAME\n",
                    made.cert.display(),
                    made.key.display(),
                    dir.display()
                ))
            }
            Self::Issue { dir, name, san, out } => {
                let made = issue(&dir, out.as_ref().unwrap_or(&dir), &name, &san).map_err(failure)?;
                print(&format!(
                    "wrote {}\nwrote {}\nNext: name them in the agent's configuration:\n\n\
                     [tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
                    made.cert.display(),
                    made.key.display(),
                    dir.join("ca.pem").display().to_string(),
                    made.cert.display().to_string(),
                    made.key.display().to_string()
                ))
            }
        }
    }
}

fn failure(error: CertsError) -> Failure {
    Failure::failed(error)
}
