package WeirConfig;

# Loaded before a test of the suite: where the test writes nginx.conf, this writes weir.toml beside it, from the
# config of the same name in configs/, with the same marks replaced (%%TESTDIR%%, %%PORT_8081%%, 127.0.0.1:8080).
# A test that writes nginx.conf a second time gets NAME.2.toml, where there is one.

use warnings;
use strict;

use File::Basename qw/ basename dirname /;
use File::Spec;

use Test::Nginx;

my $configs = File::Spec->rel2abs(dirname(__FILE__) . '/../configs');
my $times = 0;

sub config {
	my $name = basename($0, '.t');
	my $further = "$configs/$name.$times.toml";
	return $times > 1 && -e $further ? $further : "$configs/$name.toml";
}

my $expand = \&Test::Nginx::write_file_expand;

no warnings 'redefine';

*Test::Nginx::write_file_expand = sub ($$) {
	my ($self, $name, $content) = @_;

	if ($name eq 'nginx.conf') {
		$times++;
		open my $file, '<', config() or die config() . ": $!\n";
		local $/;
		$expand->($self, 'weir.toml', <$file>);
		close $file;
	}

	return $expand->($self, $name, $content);
};

1;
